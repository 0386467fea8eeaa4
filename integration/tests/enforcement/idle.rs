//! `unified["cpu.idle"]` of a plugin, which the runtime gets as `cpu.idle` on cgroup v1. The kernel
//! refuses a weight for an idle cgroup, and the runtime an update that sets one.

use crate::{check_verified, update};
use nri_integration::*;
use serde_json::{Value, json};
use std::{fs, io};

/// Reads a file of the outermost cgroup of a container, in which a weight counts: crun makes one
/// below the scope of systemd on cgroup v2.
fn read(node: &Node, id: &str, file: &str) -> io::Result<String> {
    let dir = node.cgroup_dir(id, "cpu");
    let dir = if dir.ends_with("container") { dir.parent().unwrap() } else { &dir };
    Ok(fs::read_to_string(dir.join(file))?.trim_end().to_owned())
}

/// Checks the files of the container. An idle cgroup shows the shares 3, whatever it had; on cgroup
/// v2 its weight depends on the kernel, and that of others on the runtime.
#[track_caller]
fn check(node: &Node, id: &str, idle: u8, shares: u64, when: &str) {
    assert_eq!(read(node, id, "cpu.idle").unwrap(), idle.to_string(), "{when}");
    if is_cgroup_v2() {
        let weight: u64 = read(node, id, "cpu.weight").unwrap().parse().unwrap();
        assert!(idle == 1 || weight > 1, "{when}: {weight}");
    } else {
        let shares = if idle == 1 { 3 } else { shares };
        assert_eq!(read(node, id, "cpu.shares").unwrap(), shares.to_string(), "{when}");
    }
    check_verified(node);
}

fn resources(text: &str) -> Value {
    json!({"linux": {"resources": {"unified": {"cpu.idle": text}}}})
}

#[test]
fn a_plugin_makes_a_container_idle() {
    let name = "idle containers";
    let Some(go_plugin) = go_plugin(name) else { return };
    for_each_runtime(name, |runtime| {
        let node = Node::new(runtime);
        let (bare, id, wrong) = (node.id("bare"), node.id("c"), node.id("wrong"));
        node.create(&node.bundle(&bare).make(), &bare).success();
        if read(&node, &bare, "cpu.idle").is_err() {
            return limitation(name, "the kernel has no cpu.idle");
        }
        node.ctl(&["start"]).success();
        let rules = json!({"rules": [
            {"id": id, "adjust": resources("1")}, {"id": wrong, "adjust": resources("2")},
        ]});
        let mut plugin = node.connect("10-go", &go_plugin, &rules.to_string());

        // On cgroup v2, the runtime refuses the value.
        if !is_cgroup_v2() {
            let refused = node.create(&node.bundle(&wrong).make(), &wrong);
            assert_eq!(refused.code, Some(1));
            let reason = "unified[cpu.idle] (set by plugin \"10-go\") is not supported by";
            assert!(refused.err().contains(reason), "{}", refused.err());
        }

        let requested = json!({"cpu": {"shares": 512, "quota": 50000, "period": 100_000}});
        let bundle = node.bundle(&id).resources(&requested.to_string());
        node.create(&bundle.arguments(&["/bin/sleep", "1000"]).make(), &id).success();
        let given = &node.adjusted(&id)["linux"]["resources"];
        if is_cgroup_v2() {
            let entries = json!({"cpu.idle": "1"});
            assert_eq!((given["cpu"].get("shares"), &given["unified"]), (None, &entries));
        } else {
            assert_eq!((&given["cpu"]["idle"], given.get("unified")), (&json!(1), None));
        }
        check(&node, &id, 1, 512, "after the creation");
        node.call(&["start", &id]).success();

        // Updates of the engine, with shares and without.
        update(&node, &id, &json!({"pids": {"limit": 100}})).success();
        check(&node, &id, 1, 512, "after an update of another controller");
        update(&node, &id, &json!({"cpu": {"shares": 256, "quota": 40000}})).success();
        check(&node, &id, 1, 256, "after an update of shares and quota");
        let quota = node.cgroup_file(&id, "cpu", "cpu.cfs_quota_us", "cpu.max");
        assert!(quota.starts_with("40000"), "{quota}");
        // systemd rounds it.
        if !uses_systemd() {
            let failed = update(&node, &id, &json!({"cpu": {"shares": 128, "quota": 1}}));
            assert_ne!(failed.code, Some(0), "the kernel refuses such a quota");
            check(&node, &id, 1, 256, "after an update that failed");
        }

        // Updates of the plugin.
        for (done, (text, idle)) in [("0", 0), ("1", 1), ("0", 0)].into_iter().enumerate() {
            let mut change = resources(text);
            change["containerId"] = id.as_str().into();
            plugin.send(&json!({"update": [change]}));
            let reply = wait_until("the reply", || {
                let entries = plugin.journal.entries().into_iter();
                entries.filter(|entry| entry["event"] == "UpdateContainers").nth(done)
            });
            assert_eq!((&reply["failed"], &reply["error"]), (&Value::Null, &Value::Null));
            check(&node, &id, idle, 256, &format!("after update {done} of the plugin"));
        }

        let explained = node.ctl(&["explain", &id]).success().out();
        assert!(explained.contains("unified[cpu.idle]"), "{explained}");
    });
}
