//! Containers that take CPUs which are not theirs: by annotations of their own making, and by
//! `cpuset.cpus`.

use crate::fleet::{Fleet, numbers};
use nri_integration::*;
use std::fs;

const POLICY: &str = r#"
[class.gold]
cpus = "exclusive"
count = 1
by_rule_only = true
[[rule]]
class = "gold"
annotations = { tier = "gold" }
"#;

/// Returns the kind of a container in `nri-topology status`.
fn kind(fleet: &Fleet, id: &str) -> Option<String> {
    let status = fleet.status();
    let container = status["containers"].as_array()?.iter().find(|c| c["id"] == id)?;
    Some(container["kind"].as_str()?.to_owned())
}

#[test]
fn forged_assignments_and_cpusets_do_not_keep_cpus_from_those_that_rules_give_them() {
    let name = "topology forged";
    if !has_cpusets() {
        return limitation(name, "no controller cpuset");
    }
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let all = numbers(online.trim());
    if all.len() < 2 {
        return limitation(name, "a machine with one CPU has none to give away");
    }
    for_each_runtime(name, |runtime| {
        let fleet = Fleet::without_plugin(runtime, POLICY);
        let node = &fleet.node;
        let cpus =
            |id: &str| numbers(&node.cgroup_file(id, "cpuset", "cpuset.cpus", "cpuset.cpus"));
        let restart = || {
            node.kill_nrid();
            node.ctl(&["start"]).success();
        };
        node.ctl(&["start"]).success();
        let forged = node.id("forged");
        let bundle = node
            .bundle(&forged)
            .annotation("nri-topology/assigned=exclusive")
            .annotation("nri-topology/assigned-class=gold")
            .resources("{\"cpu\": {\"cpus\": \"0\"}}");
        node.create(&bundle.make(), &forged).success();
        fleet.add_plugin();
        restart();
        assert_eq!(kind(&fleet, &forged).as_deref(), Some("shared"));
        wait_until("all CPUs", || (cpus(&forged) == all).then_some(()));

        let pinned = node.id("pinned");
        let resources = format!("{{\"cpu\": {{\"cpus\": \"{}\"}}}}", online.trim());
        node.create(&node.bundle(&pinned).resources(&resources).make(), &pinned).success();
        assert_eq!(cpus(&pinned), all);

        let gold = node.id("gold");
        node.create(&node.bundle(&gold).annotation("tier=gold").make(), &gold).success();
        let own = cpus(&gold);
        assert_eq!(own.len(), 1);
        let left = || [&forged, &pinned].map(|id| cpus(id)).iter().all(|c| c.is_disjoint(&own));
        wait_until("others to leave its CPU", || left().then_some(()));
        restart();
        let kinds = [&forged, &pinned, &gold].map(|id| kind(&fleet, id).unwrap());
        assert_eq!(kinds, ["shared", "pinned", "exclusive"]);
        assert!(left() && cpus(&gold) == own);

        node.call(&["delete", "--force", &gold]).success();
        wait_until("the CPU to be free", || (cpus(&pinned) == all).then_some(()));
        node.ctl(&["verify"]).success();
    });
}
