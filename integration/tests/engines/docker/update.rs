//! `docker update`: what plugins set stays, unless the user asks for something else.

use super::*;
use crate::life;

/// (controller, file on cgroup v1, on v2, value): what the plugin has set.
const SET: [(&str, &str, &str, &str); 4] = [
    ("cpuset", "cpuset.cpus", "cpuset.cpus", "0"),
    ("pids", "pids.max", "pids.max", "66"),
    ("memory", "memory.limit_in_bytes", "memory.max", "104857600"),
    ("memory", "memory.soft_limit_in_bytes", "memory.low", "33554432"),
];

fn check_set(look: Look, but: &[&str]) {
    for (controller, v1, v2, value) in SET {
        if !but.contains(&v1) {
            assert_eq!(look.limit(controller, v1, v2), value, "{v1}");
        }
    }
    if !unified_cgroups() && !but.contains(&"cpu.shares") {
        assert_eq!(look.limit("cpu", "cpu.shares", ""), "512");
    }
}

/// CPU quota and period.
fn quota(look: Look) -> String {
    if unified_cgroups() {
        return look.limit("cpu", "", "cpu.max");
    }
    format!(
        "{} {}",
        look.limit("cpu", "cpu.cfs_quota_us", ""),
        look.limit("cpu", "cpu.cfs_period_us", "")
    )
}

#[test]
fn what_plugins_set_stays() {
    for_each("docker update", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let docker = &adjusted.docker;
        let id = docker.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = docker.look_at("web");
        check_set(look, &[]);
        docker.out(&["update", "--cpus", "0.5", "web"]);
        assert_eq!(quota(look), "50000 100000");
        check_set(look, &[]);
        // 20.10 sends zeros for all but the limit of pids, quota and period included.
        docker.out(&["update", "--pids-limit", "55", "web"]);
        assert_eq!(look.limit("pids", "pids.max", "pids.max"), "55");
        assert_eq!(quota(look), "50000 100000", "what the user gave before stays, too");
        check_set(look, &["pids.max"]);
        // What the user asks for, the user gets.
        docker.out(&[
            "update",
            "--cpuset-cpus",
            "0",
            "--memory",
            "80m",
            "--memory-swap",
            "160m",
            "web",
        ]);
        let changed = ["pids.max", "memory.limit_in_bytes"];
        assert_eq!(look.limit("memory", "memory.limit_in_bytes", "memory.max"), "83886080");
        check_set(look, &changed);
        // Nothing of it is for the runtime.
        docker.out(&["update", "--restart", "no", "web"]);
        check_set(look, &changed);
        docker.out(&["rm", "--force", "web"]);

        let events = adjusted.lives(&id, 1);
        let updates = events.iter().filter(|e| *e == "UpdateContainer").count();
        assert!(
            (3..=4).contains(&updates),
            "20.10 tells the runtime of the last one, too: {events:?}"
        );
        assert_eq!(events, life(&["UpdateContainer", "PostUpdateContainer"].repeat(updates)));
        let asked: Vec<_> = adjusted.plugin.journal.about(&id);
        let asked: Vec<_> = asked
            .iter()
            .filter(|e| e["event"] == "UpdateContainer")
            .map(|e| &e["resources"])
            .collect();
        let number = |n: u64| json!({"value": n.to_string()});
        assert_eq!(asked[0], &json!({"cpu": {"quota": number(50000), "period": number(100_000)}}));
        assert_eq!(asked[1], &json!({"pids": {"limit": "55"}}), "only what was given");
    });
}

#[test]
fn a_class_stays() {
    for_each("docker update, block I/O class", |suite, go| {
        let docker = Docker::start(suite);
        let classes = docker.path("blockio.json");
        std::fs::write(&classes, r#"{"Classes": {"slow": [{"Weight": 300}]}}"#).unwrap();
        docker.configure(&format!("blockio = {{ config_file = {classes:?} }}"));
        let class = json!({"linux": {"resources": {"blockioClass": {"value": "slow"}}}});
        let adjusted = Adjusted::with(docker, go, &class);
        let docker = &adjusted.docker;
        docker.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = docker.look_at("web");
        let Some(weight) = look.try_limit("blkio", "blkio.bfq.weight", "io.bfq.weight") else {
            return limitation(
                "docker update, block I/O class",
                "the kernel has no weights of BFQ",
            );
        };
        assert!(weight.ends_with("300"), "{weight}");
        docker.out(&["update", "--pids-limit", "55", "web"]);
        assert_eq!(look.limit("blkio", "blkio.bfq.weight", "io.bfq.weight"), weight);
    });
}

#[test]
fn a_plugin_refuses_and_changes() {
    for_each("docker update, plugins", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &adjustment());
        let mut plugin = adjusted.plugin;
        let docker = &adjusted.docker;
        let id = docker.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let look = docker.look_at("web");
        plugin.tell(
            &json!({"config": {"rules": [{"event": "UpdateContainer", "error": "not while it works"}]}}),
        );
        plugin.journal.wait_for_own("Reconfigured");
        let refused = docker.docker(&["update", "--cpus", "0.5", "web"]);
        assert_eq!(refused.code, Some(1));
        assert!(
            refused.err().contains("plugin 10-go") && refused.err().contains("not while it works"),
            "{}",
            refused.err()
        );
        check_set(look, &[]);
        assert!(!quota(look).starts_with("50000"));
        plugin
            .tell(&json!({"update": [{"containerId": id, "linux": {"resources": {"pids": {"limit": 44}}}}]}));
        plugin.journal.wait_for_own("UpdateContainers");
        assert_eq!(look.limit("pids", "pids.max", "pids.max"), "44", "unsolicited");
    });
}
