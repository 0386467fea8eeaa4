//! The plugin `topology` on real containers: they come, change and go at random, the plugin and
//! `nrid` restart, and after each event the kernel must have what the plugin says.
//!
//! `NRI_TOPOLOGY_CONTAINERS` is the number of containers of each runtime, by default 100. The
//! guests of `integration/guests` run fewer, since each takes seconds there.

mod fleet;

use fleet::Fleet;
use nri_integration::*;
use serde_json::json;

/// Policy of these tests: all kinds of classes, on machines with two CPUs as well.
const POLICY: &str = r#"
[class.own]
cpus = "exclusive"
[class.soft]
cpus = "exclusive"
unsatisfied = "share"
[class.near]
cpus = "exclusive"
within = "node"
unsatisfied = "share"
[class.node]
within = "node"
[class.batch]
idle = true
"#;

#[test]
fn the_kernel_has_what_the_plugin_says_while_containers_come_and_go() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    let count = std::env::var("NRI_TOPOLOGY_CONTAINERS").map_or(100, |n| n.parse().unwrap());
    for_each_runtime("topology", |runtime| {
        let mut fleet = Fleet::new(runtime, POLICY);
        while fleet.created < count {
            fleet.random_event();
            fleet.check();
        }
        fleet.restart();
        println!("{}: {}", runtime.name, fleet.summary());
        assert!(fleet.exclusive > 0 && fleet.shared > 0, "{}", fleet.summary());
    });
}

#[test]
fn a_container_that_cannot_be_satisfied_is_refused_with_the_reason() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology refusals", |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        let id = fleet.node.id("large");
        let bundle = fleet.node.bundle(&id).annotation("nri-topology/cpus=4096").make();
        let line = fleet.node.create(&bundle, &id).refusal();
        let expected = "topology: class \"exclusive\": 4096 exclusive CPUs are wanted, and ";
        assert!(line.contains(expected), "{line}");

        let bundle = fleet.node.bundle(&id).annotation("nri-topology/class=none").make();
        let line = fleet.node.create(&bundle, &id).refusal();
        assert!(line.contains("nri-topology/class is \"none\""), "{line}");
        assert_eq!(fleet.status()["containers"], json!([]));
    });
}

#[test]
fn classes_set_weights_and_the_picture_shows_owners() {
    if !has_cpusets() {
        return limitation("topology", "no controller cpuset");
    }
    for_each_runtime("topology classes", |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        for (name, annotation) in [("a", "nri-topology/class=batch"), ("b", "nri-topology/cpus=1")]
        {
            let id = fleet.node.id(name);
            let bundle = fleet.node.bundle(&id).annotation(annotation).make();
            fleet.node.create(&bundle, &id).success();
        }
        let idle = fleet.node.cgroup_file(&fleet.node.id("a"), "cpu", "cpu.shares", "cpu.idle");
        assert_eq!(idle, if is_cgroup_v2() { "1" } else { "2" });
        let table = fleet.plugin(&["status"]).success().out();
        assert!(table.lines().any(|line| line.contains("batch") && line.contains("shared")));
        assert!(table.lines().any(|line| line.contains("exclusive  exclusive")), "{table}");
        let picture = fleet.node.path("status.svg");
        fleet.plugin(&["status", "--svg", picture.to_str().unwrap()]).success();
        let picture = std::fs::read_to_string(picture).unwrap();
        assert!(picture.starts_with("<svg ") && picture.contains("(exclusive): "), "{picture}");
    });
}
