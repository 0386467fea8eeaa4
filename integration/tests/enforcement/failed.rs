//! A failed update changes nothing, whether the engine or a plugin requested it: fields that were
//! written before the failure are restored.

use crate::{
    check_verified,
    field::{Field, Values, join},
    table::{available_fields, initial_resources, named},
    update,
};
use nri_integration::*;
use serde_json::json;

/// Number of a CPU that no test machine has, so that the kernel refuses it.
const NO_CPU: &str = "4000";

/// Checks that the fields have their values of this step (see [`Field::value`]).
#[track_caller]
fn check(node: &Node, id: &str, fields: &[&Field], step: usize, when: &str) {
    for field in fields {
        field.check(node, id, &field.value(step), &Values::default(), when);
    }
}

#[test]
fn a_failed_update_by_the_engine_changes_nothing() {
    let Some(go_plugin) = go_plugin("failed update") else { return };
    if !has_cpusets() {
        return limitation("failed update", "the kernel has no cpuset controller");
    }
    for_each_runtime("failed update", |runtime| {
        let node = Node::new(runtime);
        let id = node.id("c");
        let fields = [
            named("memory.limit"),
            named("memory.reservation"),
            named("pids.limit"),
            named("cpu.shares"),
        ];
        // The engine sets all fields, and the plugin changes the last two.
        let adjust = join(fields[2..].iter().map(|f| f.message(&f.value(1))));
        node.launch(
            "10-go",
            &go_plugin,
            &json!({"rules": [{"adjust": {"linux": {"resources": adjust}}}]}).to_string(),
        );
        node.create(
            &node.bundle(&id).resources(&initial_resources(&fields).to_string()).make(),
            &id,
        )
        .success();
        // crun writes one field after another until a write fails, here the write of the CPUs.
        let mut resources = join(fields.iter().map(|f| f.resources(&f.value(2))));
        resources["cpu"]["cpus"] = NO_CPU.into();
        assert_ne!(update(&node, &id, &resources).code, Some(0));
        check(&node, &id, &fields[..2], 0, "set by the engine, after a failed update");
        check(&node, &id, &fields[2..], 1, "set by the plugin, after a failed update");
        check_verified(&node);
        // If the engine repeats a value of the failed update, this counts as a new request.
        update(&node, &id, &json!({"pids": {"limit": fields[2].value(2)}})).success();
        check(&node, &id, &fields[2..3], 2, "after the repeated request");
    });
}

#[test]
fn a_failed_update_by_a_plugin_is_reported_and_changes_nothing() {
    let Some(go_plugin) = go_plugin("failed update of a plugin") else { return };
    for_each_runtime("failed update of a plugin", |runtime| {
        let node = Node::new(runtime);
        let available = available_fields(&node, "failed update of a plugin");
        let id = node.id("c");
        let fields: Vec<_> = available
            .into_iter()
            .filter(|f| ["pids.limit", "memory.swappiness", "hugepageLimits"].contains(&f.name))
            .collect();
        let Some(swappiness) = fields.iter().find(|f| f.name == "memory.swappiness") else {
            return limitation("failed update of a plugin", "the kernel has no memory.swappiness");
        };
        node.create(
            &node.bundle(&id).resources(&initial_resources(&fields).to_string()).make(),
            &id,
        )
        .success();
        node.ctl(&["start"]).success();
        let mut plugin = node.connect("10-go", &go_plugin, "{}");
        // The runtime's `update` succeeds. Then nrid writes the fields that the runtime cannot
        // update, until the kernel refuses a value.
        let mut resources = join(fields.iter().map(|f| f.message(&f.value(1))));
        // The kernel accepts at most 200.
        resources["memory"]["swappiness"]["value"] = json!(1000);
        plugin.send(&json!({"update": [{"containerId": id, "linux": {"resources": resources}}]}));
        assert_eq!(plugin.journal.wait_for_plugin_event("UpdateContainers")["failed"], json!([id]));
        check(&node, &id, &fields, 0, "after a failed update");
        // An update with a valid value succeeds afterwards.
        plugin.send(&json!({"update": [swappiness.update(&id, &swappiness.value(1))]}));
        wait_until("the second reply", || {
            let done = plugin
                .journal
                .entries()
                .into_iter()
                .filter(|e| e["event"] == "UpdateContainers")
                .nth(1)?;
            assert!(done["failed"].is_null(), "{done}");
            Some(())
        });
        check(&node, &id, &[swappiness], 1, "after the second update");
        check_verified(&node);
    });
}
