//! Tests of one plugin on each version of the stub: the plugin receives the events of a container,
//! adjusts the container, updates a second container, and evicts a third.

use crate::runc;
use nri_integration::*;
use serde_json::{Value, json};

/// Script that prints a line on SIGTERM. The line shows that the container was not killed at once
/// by SIGKILL.
const TERM_TRAP: &str =
    "trap 'echo terminated=1; exit 0' TERM; echo ready=1; while :; do sleep 1 & wait $!; done";
const MIB: u64 = 1 << 20;

fn check_versions(is_launched: bool) {
    let Some(runtime) = runc("versions of the stub") else { return };
    for version in versions("versions of the stub") {
        check_version(&Node::new(runtime), version, is_launched);
    }
}

#[test]
fn an_external_plugin_on_each_stub_version_receives_a_life_cycle() {
    check_versions(false);
}

#[test]
fn a_launched_plugin_on_each_stub_version_receives_a_life_cycle() {
    check_versions(true);
}

/// Returns an update of a container's memory limit.
fn memory_update(id: &str, limit: u64) -> Value {
    json!({"containerId": id, "linux": {"resources": {"memory": {"limit": {"value": limit}}}}})
}

/// Returns an adjustment of fields that this version's protocol has.
fn adjustment(version: &Version) -> Value {
    let mut adjust = json!({
        "env": [{"key": "STUB", "value": version.name}],
        "annotations": {"example.org/stub": version.name},
        "linux": {"resources": {
            "memory": {"limit": {"value": 96 * MIB}},
            "cpu": {"shares": {"value": 512}},
        }},
    });
    if version.is_at_least_v0_6 {
        adjust["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}]);
    }
    if version.has_pids_limit {
        adjust["linux"]["resources"]["pids"] = json!({"limit": 66});
    }
    adjust
}

fn expected_events(version: &Version) -> Vec<&'static str> {
    let mut events = vec!["RunPodSandbox", "CreateContainer"];
    if version.has_validation {
        events.push("ValidateContainerAdjustment");
    }
    events.extend(["PostCreateContainer", "StartContainer", "PostStartContainer"]);
    events.extend(["UpdateContainer", "PostUpdateContainer"]);
    events.extend(["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"]);
    events
}

/// Checks the events that a plugin receives, its adjustment, and its update of another container.
/// If the plugin is external, also checks its unsolicited requests.
fn check_version(node: &Node, version: &Version, is_launched: bool) {
    let (id, other) = (node.id("c"), node.id("other"));
    let limit = |id: &str| node.cgroup_file(id, "memory", "memory.limit_in_bytes", "memory.max");
    let updates = [memory_update(&other, 80 * MIB)];
    let rule = json!({"id": id, "adjust": adjustment(version), "updates": updates});
    let config = json!({"rules": [rule]}).to_string();
    let name = format!("10-{}", version.name);
    let limited = r#"{"memory": {"limit": 67108864}, "pids": {"limit": 50}}"#;
    let journal = is_launched.then(|| node.launch(&name, &version.program, &config));
    node.create(&node.bundle(&other).resources(limited).make(), &other).success();
    let mut external = (!is_launched).then(|| node.connect(&name, &version.program, &config));
    let journal = journal.unwrap_or_else(|| external.as_ref().unwrap().journal.clone());
    let synchronized = journal.wait_for_plugin_event("Synchronize");
    if is_launched {
        assert_eq!(synchronized["containers"], Value::Null, "{}", version.name);
        assert!(
            journal.wait_for_plugin_event("Configure")["config"]
                .as_str()
                .unwrap()
                .contains("example.org/stub")
        );
    } else {
        assert_eq!(synchronized["containers"], json!([other]), "{}", version.name);
        assert_eq!(synchronized["pods"], json!([other]), "{}", version.name);
    }

    let bundle = node.bundle(&id).resources(limited).arguments(&["/probe", "wait"]).make();
    let created = node.create(&bundle, &id).success();
    assert_eq!(
        limit(&other),
        (80 * MIB).to_string(),
        "{}: limit of the other container after the reply to the creation",
        version.name
    );
    assert_eq!(node.adjusted(&id)["annotations"]["example.org/stub"], version.name);
    node.call(&["start", &id]).success();
    wait_until("the probe to start", || created.out().contains("ready=1").then_some(()));
    let report = Report::parse(&created.out());
    report.check(&[("env.STUB", version.name), ("memory.limit_in_bytes|memory.max", "100663296")]);
    report.check(&[
        // cgroup v2 weights of 512 shares: the two conversions that versions of the runtimes have.
        ("cpu.shares|cpu.weight", "512|20|59"),
        ("pids.max", if version.has_pids_limit { "66" } else { "50" }),
    ]);
    if version.is_at_least_v0_6 {
        report.check(&[("rlimit.nofile", "512 1024")]);
    }

    let resources = node.path("resources.json");
    std::fs::write(&resources, r#"{"pids": {"limit": 55}}"#).unwrap();
    node.call(&["update", "--resources", resources.to_str().unwrap(), &id]).success();
    node.call(&["kill", &id, "TERM"]).success();
    journal.wait_for("StopContainer", &id);
    node.call(&["delete", &id]).success();
    journal.wait_for("RemovePodSandbox", &id);
    assert_eq!(journal.events(&id), expected_events(version), "{}", version.name);
    let updated = journal.wait_for("UpdateContainer", &id);
    if version.has_pids_limit {
        assert_eq!(updated["resources"]["pids"]["limit"], "55", "{}", version.name);
    }
    let started = journal.wait_for("PostStartContainer", &id);
    assert!(started["pid"].as_u64().is_some_and(|pid| pid > 1), "{started}");

    if let Some(plugin) = &mut external {
        check_unsolicited_requests(node, version, plugin, &other);
    }
}

/// Checks an unsolicited update and an eviction.
fn check_unsolicited_requests(node: &Node, version: &Version, plugin: &mut External, other: &str) {
    plugin.send(
        &json!({"update": [memory_update(other, 70 * MIB), memory_update("unknown", 70 * MIB)]}),
    );
    let done = plugin.journal.wait_for_plugin_event("UpdateContainers");
    assert_eq!(done["failed"], json!(["unknown"]), "{}: {done}", version.name);
    assert_eq!(done["error"], Value::Null, "{}: {done}", version.name);
    let limit = node.cgroup_file(other, "memory", "memory.limit_in_bytes", "memory.max");
    assert_eq!(limit, (70 * MIB).to_string(), "{}", version.name);

    let id = node.id("evicted");
    let created = node
        .create(&node.bundle(&id).arguments(&["/bin/sh", "-c", TERM_TRAP]).make(), &id)
        .success();
    node.call(&["start", &id]).success();
    wait_until("the script to set its trap", || created.out().contains("ready=1").then_some(()));
    plugin.send(&json!({"evict": [{"containerId": id, "reason": "a test"}]}));
    if version.is_at_least_v0_6 {
        assert_eq!(
            plugin.journal.wait_for_plugin_event("Evict")["error"],
            Value::Null,
            "{}",
            version.name
        );
        plugin.journal.wait_for("StopContainer", &id);
        assert!(
            created.out().contains("terminated=1"),
            "{}: the evicted container did not get SIGTERM: {}",
            version.name,
            created.out()
        );
        assert_eq!(node.state(&id).unwrap()["status"], "stopped");
        let log = node.log();
        assert!(
            log.lines().any(|l| l.contains("evicted") && l.contains(&id) && l.contains("a test")),
            "{log}"
        );
    } else {
        // The protocol has evictions, but stubs before v0.6 have no function for them.
        plugin.journal.wait_for_plugin_event("BadCommand");
    }
}
