//! `runc update` resets resources that are not in its arguments. These tests first show this on
//! bare runc, then that the wrapper keeps the resources set by plugins.

use crate::{
    check_verified,
    table::{available_fields, initial_resources},
    update,
};
use nri_integration::*;
use serde_json::{Value, json};
use std::fs;

/// Resources that the engine requests at the creation.
fn resources() -> Value {
    let mut resources = json!({
        "memory": {"limit": 64 << 20},
        "cpu": {"shares": 512, "quota": 50000, "period": 100_000},
        "pids": {"limit": 50}
    });
    if has_cpusets() {
        resources["cpu"]["cpus"] = "0".into();
        resources["cpu"]["mems"] = "0".into();
    }
    if is_cgroup_v2() {
        resources["unified"] = json!({"memory.high": "58720256"});
    }
    resources
}

/// Reads `config.cgroups` of runc's `state.json`.
fn runc_state(node: &Node, id: &str) -> Value {
    let text = fs::read(node.root().join(id).join("state.json")).expect("runc writes state.json");
    serde_json::from_slice::<Value>(&text).expect("runc writes JSON")["config"]["cgroups"].clone()
}

/// Reads, from runc's state, the values of the fields that an update by bare runc resets.
fn recorded(node: &Node, id: &str) -> Value {
    let state = runc_state(node, id);
    let mut recorded = json!({
        "pids": state["pids_limit"], "quota": state["cpu_quota"], "period": state["cpu_period"]
    });
    if has_cpusets() {
        recorded["cpus"] = state["cpuset_cpus"].clone();
        recorded["mems"] = state["cpuset_mems"].clone();
    }
    if is_cgroup_v2() {
        recorded["high"] = state["unified"]["memory.high"].clone();
    }
    recorded
}

/// Whether a value of runc's state is not set: null, 0, or an empty string.
fn is_unset(value: &Value) -> bool {
    value.is_null() || value == 0 || value == ""
}

fn make_bundle(node: &Node, id: &str) -> Bundle {
    node.bundle(id).resources(&resources().to_string()).arguments(&["/bin/sleep", "1000"]).make()
}

/// Runs `test` with runc but not with crun, which does not reset resources.
fn with_runc(name: &str, test: impl Fn(&Runtime)) {
    for_each_runtime(name, |runtime| {
        if runtime.name == "runc" {
            test(runtime);
        }
    });
}

#[test]
fn bare_runc_resets_limits_that_an_update_does_not_repeat() {
    with_runc("bare runc resets limits", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let bundle = make_bundle(&node, &id);
        node.bare(&["create", "--bundle", bundle.dir().to_str().expect("UTF-8"), &id]).success();
        let before = recorded(&node, &id);
        let values = before.as_object().expect("the values are an object");
        assert!(values.values().all(|v| !is_unset(v)), "a limit is not set: {before}");
        node.bare(&["update", "--memory", "70000000", &id]).success();
        let after = recorded(&node, &id);
        for (field, value) in after.as_object().expect("the values are an object") {
            assert!(
                is_unset(value),
                "runc kept {field} ({after}), so the wrapper need not repeat all resources in an \
                 update"
            );
        }
    });
}

#[test]
fn bare_runc_overwrites_direct_writes_to_cgroups() {
    with_runc("bare runc overwrites cgroups", |runtime| {
        let node = Node::new(runtime);
        let fields = available_fields(&node, "bare runc overwrites cgroups");
        // Each update by runc also writes the fields that an update cannot change, with the values
        // that they had at the creation.
        let Some(field) = ["memory.swappiness", "hugepageLimits"]
            .iter()
            .find_map(|name| fields.iter().find(|f| f.name == *name))
        else {
            return limitation(
                "bare runc overwrites cgroups",
                "the kernel limits neither swappiness nor huge pages",
            );
        };
        let id = node.id("c");
        let bundle = node.bundle(&id).resources(&initial_resources(&[field]).to_string()).make();
        node.bare(&["create", "--bundle", bundle.dir().to_str().expect("UTF-8"), &id]).success();
        let (controller, v1, v2) = field.file;
        let file = node.cgroup_dir(&id, controller).join(if is_cgroup_v2() { v2 } else { v1 });
        fs::write(&file, field.value(1).to_string()).expect("root may write cgroup files");
        field.check(&node, &id, &field.value(1), &Default::default(), "after a direct write");
        node.bare(&["update", "--pids-limit", "51", &id]).success();
        field.check(&node, &id, &field.value(0), &Default::default(), "after an update");
    });
}

#[test]
fn limits_set_by_plugins_survive_updates() {
    let Some(go_plugin) = go_plugin("limits survive updates") else { return };
    with_runc("limits survive updates", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let mut adjusted = json!({"pids": {"limit": 61}, "cpu": {"quota": {"value": 25000}}});
        if has_cpusets() {
            adjusted["cpu"]["cpus"] = "0".into();
        }
        if is_cgroup_v2() {
            adjusted["unified"] = json!({"memory.high": "50331648"});
        }
        let rule = json!({"adjust": {"linux": {"resources": adjusted}}});
        node.launch("10-go", &go_plugin, &json!({"rules": [rule]}).to_string());
        node.create(&make_bundle(&node, &id), &id).success();
        let before = recorded(&node, &id);
        assert_eq!((&before["pids"], &before["quota"]), (&json!(61), &json!(25000)));
        // With bare runc, each of these updates would reset all other fields, also the fields that
        // the engine set.
        for (n, (group, field)) in
            [("memory", "limit"), ("memory", "reservation"), ("cpu", "shares"), ("memory", "limit")]
                .into_iter()
                .enumerate()
        {
            let value = if group == "cpu" { 600 } else { (70 + n) << 20 };
            update(&node, &id, &json!({group: {field: value}})).success();
            assert_eq!(recorded(&node, &id), before, "after an update of {field}");
        }
        node.call(&["update", "--memory", "90000000", &id]).success();
        assert_eq!(recorded(&node, &id), before, "after an update by a flag");
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "61");
        check_verified(&node);
    });
}

#[test]
fn a_cpu_burst_survives_updates() {
    let Some(go_plugin) = go_plugin("burst") else { return };
    for_each_runtime("burst", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        node.launch(
            "10-go",
            &go_plugin,
            &json!({"rules": [{"adjust": {"linux": {"resources": {"pids": {"limit": 61}}}}}]})
                .to_string(),
        );
        let resources = r#"{"cpu": {"quota": 50000, "period": 100000, "burst": 10000}}"#;
        node.create(&node.bundle(&id).resources(resources).make(), &id).success();
        let burst =
            |node: &Node| node.try_cgroup_file(&id, "cpu", "cpu.cfs_burst_us", "cpu.max.burst");
        if burst(&node).ok().as_deref() != Some("10000") {
            return limitation(
                &format!("burst ({})", runtime.name),
                "this runtime or kernel does not support CPU bursts",
            );
        }
        if runtime.name == "runc" {
            // Bare runc resets the burst.
            let bare = node.id("bare");
            let bundle = node.bundle(&bare).resources(resources).make();
            node.bare(&["create", "--bundle", bundle.dir().to_str().expect("UTF-8"), &bare])
                .success();
            assert_eq!(runc_state(&node, &bare)["cpu_burst"], 10000);
            node.bare(&["update", "--memory", "67108864", &bare]).success();
            assert!(is_unset(&runc_state(&node, &bare)["cpu_burst"]));
            node.bare(&["delete", "--force", &bare]).success();
        }
        update(&node, &id, &json!({"memory": {"limit": 64 << 20}})).success();
        assert_eq!(burst(&node).expect("the burst file exists"), "10000");
        if runtime.name == "runc" {
            assert_eq!(runc_state(&node, &id)["cpu_burst"], 10000);
        }
        check_verified(&node);
    });
}
