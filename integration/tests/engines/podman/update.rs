//! `podman update`: what plugins set stays, unless the user asks for something else. Podman 5 sends
//! the whole of its own resources again.

use super::*;
use crate::life;

#[test]
fn what_plugins_set_stays() {
    for_each("podman update", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let podman = &adjusted.podman;
        let id = podman.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = podman.look_at("web");
        let check = |memory: &str| {
            for (controller, v1, v2, value) in [
                ("cpuset", "cpuset.cpus", "cpuset.cpus", "0"),
                ("pids", "pids.max", "pids.max", "66"),
                ("memory", "memory.limit_in_bytes", "memory.max", memory),
                ("memory", "memory.soft_limit_in_bytes", "memory.low", "33554432"),
            ] {
                assert_eq!(look.limit(controller, v1, v2), value, "{v1}");
            }
            if !unified_cgroups() {
                assert_eq!(look.limit("cpu", "cpu.shares", ""), "512");
            }
        };
        let quota = || {
            let text = look.limit("cpu", "cpu.cfs_quota_us", "cpu.max");
            text.split(' ').next().unwrap().to_owned()
        };
        check("104857600");
        podman.out(&["update", "--cpus", "0.5", "web"]);
        assert_eq!(quota(), "50000");
        check("104857600");
        podman.out(&["update", "--memory", "80m", "--memory-swap", "160m", "web"]);
        assert_eq!(quota(), "50000", "what the user gave before stays, too");
        check("83886080");
        podman.out(&["rm", "--force", "web"]);
        let updated = ["UpdateContainer", "PostUpdateContainer"].repeat(2);
        assert_eq!(adjusted.lives(&id, 1), life(&updated));
        let heard = adjusted.plugin.journal.about(&id);
        let asked: Vec<_> = heard
            .iter()
            .filter(|e| e["event"] == "UpdateContainer")
            .map(|e| &e["resources"])
            .collect();
        let number = |n: u64| json!({"value": n.to_string()});
        assert_eq!(asked[0], &json!({"cpu": {"quota": number(50000), "period": number(100_000)}}));
        let memory = json!({"limit": number(80 << 20), "swap": number(160 << 20)});
        assert_eq!(asked[1], &json!({"memory": memory}), "only what is new");
    });
}

#[test]
fn a_plugin_refuses() {
    for_each("podman update, refused", |suite, go| {
        let podman = Podman::start(suite);
        podman.ctl(&["start"]).success();
        let rule = r#"{"rules": [{"event": "UpdateContainer", "error": "not while it works"}]}"#;
        let _plugin = podman.connect("10-go", go, rule);
        podman.run_detached(
            "web",
            &[&["--network=none", "--pids-limit=55", IMAGE], &WAIT[..]].concat(),
        );
        let refused = podman.podman(&["update", "--cpus", "0.5", "web"]);
        assert!(refused.code.is_some_and(|code| code != 0));
        let said = refused.err();
        assert!(said.contains("plugin 10-go") && said.contains("not while it works"), "{said}");
        assert_eq!(podman.look_at("web").limit("pids", "pids.max", "pids.max"), "55");
    });
}
