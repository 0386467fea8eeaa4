//! Containers whose cgroups an engine wants below its own: the plugin makes them at the root.

use super::{POLICY, fleet::Fleet};
use nri_integration::*;
use std::{fs, path::PathBuf};

fn process(node: &Node, id: &str) -> ContainerProcess {
    let pid = node.state(id).expect("the runtime knows the container")["pid"].clone();
    ContainerProcess::of(Process(serde_json::from_value(pid).unwrap()))
}

/// Directory of the outermost cgroup of a container: crun makes one below the scope of systemd.
fn dir(node: &Node, id: &str, controller: &str) -> PathBuf {
    let dir = process(node, id).cgroup(controller);
    if dir.ends_with("container") { dir.parent().unwrap().to_owned() } else { dir }
}

fn read(node: &Node, id: &str, v1: &str, v2: &str) -> String {
    let file = dir(node, id, "cpu").join(if is_cgroup_v2() { v2 } else { v1 });
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.trim_end().to_owned()
}

fn cpus(node: &Node, id: &str) -> Vec<u32> {
    let list = process(node, id).limit("cpuset", "cpuset.cpus", "cpuset.cpus.effective");
    let ranges = list.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(a, b)| a.parse::<u32>().unwrap()..=b.parse().unwrap()).collect()
}

#[test]
fn exclusive_and_idle_containers_of_an_engine_are_at_the_root() {
    let name = "topology at the root";
    if !has_cpusets() {
        return limitation(name, "no controller cpuset");
    }
    for_each_runtime(name, |runtime| {
        let fleet = Fleet::new(runtime, POLICY);
        let node = &fleet.node;
        let create = |name: &str, annotation: &str| {
            let id = node.id(name);
            let (path, cgroup) = if uses_systemd() {
                (format!("system.slice:docker:{id}"), format!("docker-{id}.scope"))
            } else {
                (format!("/docker/{id}"), format!("docker-{id}"))
            };
            let bundle = node.bundle(&id).cgroup(&path).annotation(annotation);
            let bundle = bundle.resources("{\"cpu\": {\"shares\": 512}}");
            node.create(&bundle.arguments(&["/bin/sleep", "1000"]).make(), &id).success();
            node.call(&["start", &id]).success();
            for controller in ["cpu", "cpuset"] {
                let root = cgroup_root(controller);
                assert_eq!(dir(node, &id, controller), root.join(&cgroup), "{controller}");
            }
            id
        };
        let own = create("own", "nri-topology/cpus=1");
        let batch = create("batch", "nri-topology/class=batch");
        if !dir(node, &batch, "cpu").join("cpu.idle").exists() {
            return limitation(name, "the kernel has no cpu.idle");
        }
        let check = |when: &str| {
            assert_eq!(read(node, &batch, "cpu.idle", "cpu.idle"), "1", "{when}");
            let weight = read(node, &own, "cpu.shares", "cpu.weight");
            assert_eq!(weight, if is_cgroup_v2() { "10000" } else { "262144" }, "{when}");
            let exclusive = cpus(node, &own);
            assert_eq!(exclusive.len(), 1, "{when}");
            assert!(cpus(node, &batch).contains(&exclusive[0]), "{when}: nothing is lent");
            node.ctl(&["verify"]).success();
        };
        check("after the creation");
        for id in [&own, &batch] {
            node.call(&["update", "--pids-limit", "50", id]).success();
            node.call(&["update", "--cpu-share", "700", id]).success();
        }
        check("after updates");
        for id in [&own, &batch] {
            let dir = dir(node, id, "cpu");
            node.call(&["delete", "--force", id]).success();
            wait_until("the end of the cgroup", || (!dir.exists()).then_some(()));
        }
    });
}
