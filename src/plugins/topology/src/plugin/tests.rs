//! Tests of the plugin with a runtime in the same process.

use super::*;
use crate::classes::EXCLUSIVE_SHARES;
use nri_plugin::testing::{InProcessRuntime, container, pod};

/// Starts the plugin on a machine with four CPUs.
fn start(policy: &str) -> (tempfile::TempDir, InProcessRuntime<Topology>) {
    let devices = tempfile::tempdir().unwrap();
    let cpu = devices.path().join("system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3").unwrap();
    let runtime = InProcessRuntime::start(Topology::new(devices.path().to_owned()), policy);
    (devices, runtime.unwrap())
}

#[test]
fn containers_keep_exclusive_cpus_with_another_policy_and_others_follow_it() {
    let (_devices, runtime) = start("socket = ''");
    let pod = pod("shop");
    let mut db = container(&pod, "db");
    db.annotations.insert("nri-topology/cpus".to_owned(), "1".to_owned());
    let reply = runtime.create_container(&pod, &db).unwrap();
    let own = reply.adjust.linux.resources.cpu.cpus.clone();
    let web = container(&pod, "web");
    let reply = runtime.create_container(&pod, &web).unwrap();
    let shared = reply.adjust.linux.resources.cpu.cpus.clone();
    assert_eq!((own.as_str(), shared.as_str()), ("0", "1-3"));

    let refused = runtime.reconfigure("socket = ''\nshared_mim = 1").unwrap_err().to_string();
    assert!(refused.contains("line 2, column 1"), "{refused}");
    let refused = runtime.reconfigure("reserved_cpus = '7'").unwrap_err().to_string();
    assert!(refused.contains('7'), "{refused}");
    assert!(runtime.take_requests().is_empty());

    runtime.reconfigure("socket = ''\nreserved_cpus = '3'").unwrap();
    let requests = runtime.take_requests();
    let updates: Vec<_> = requests.iter().flat_map(|request| &request.update).collect();
    let [update] = updates[..] else { panic!("{updates:?}") };
    assert_eq!(update.container_id, web.id);
    assert_eq!(update.linux.resources.cpu.cpus, "1-2");
    let mut other = container(&pod, "other");
    other.annotations.insert("nri-topology/cpus".to_owned(), "3".to_owned());
    let refused = runtime.create_container(&pod, &other).unwrap_err().to_string();
    assert!(refused.contains("3 exclusive CPUs are wanted"), "{refused}");
}

#[test]
fn exclusive_and_idle_containers_leave_the_cgroup_of_the_engine() {
    let devices = tempfile::tempdir().unwrap();
    let cpu = devices.path().join("system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3").unwrap();
    let topology = Topology { cgroups: Cgroups::V2, ..Topology::new(devices.path().into()) };
    let policy = "socket = ''\n[class.batch]\nidle = true";
    let runtime = InProcessRuntime::start(topology, policy).unwrap();
    let pod = pod("shop");
    let create = |name: &str, annotation: (&str, &str), path: &str| {
        let mut container = container(&pod, name);
        container.annotations.insert(annotation.0.to_owned(), annotation.1.to_owned());
        container.linux.mut_or_insert_default().cgroups_path = path.to_owned();
        let linux = runtime.create_container(&pod, &container).unwrap().adjust.linux.clone();
        let cpu = &linux.resources.cpu;
        let shares = cpu.shares.as_ref().map_or(0, |shares| shares.value);
        let idle = linux.resources.unified.get("cpu.idle").cloned().unwrap_or_default();
        (linux.cgroups_path.clone(), cpu.cpus.clone(), shares, idle)
    };
    let text = |a: (&str, &str, u64, &str)| (a.0.to_owned(), a.1.to_owned(), a.2, a.3.to_owned());
    let exclusive = ("nri-topology/cpus", "1");
    let batch = ("nri-topology/class", "batch");
    let got = create("db", exclusive, "/docker/x");
    assert_eq!(got, text(("/x", "0", EXCLUSIVE_SHARES, "")));
    let got = create("b", batch, "system.slice:docker:y");
    assert_eq!(got, text(("-.slice:docker:y", "0-3", 0, "1")));
    // Below a cgroup that is not idle, a container is not idle to those beside it.
    let got = create("c", batch, "/kubepods/pod1/z");
    assert_eq!(got, text(("", "1-3", 0, "1")));
    let got = create("pod", exclusive, "/kubepods/pod1/x");
    assert_eq!(got, text(("", "1", 0, "")));
    assert_eq!(create("web", ("a", "b"), "/docker/w"), text(("", "2-3", 0, "")));
}
