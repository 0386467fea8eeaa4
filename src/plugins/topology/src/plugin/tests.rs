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

/// Starts the plugin on a host with these cgroups, and returns a function that creates containers:
/// by name, class and path of the cgroup. It returns what they get of these: the path, CPUs,
/// shares, and the entries of annotations and files that say idle.
fn start_on(
    cgroups: Cgroups,
    policy: &str,
) -> impl Fn(&str, (&str, &str), &str) -> (String, String, u64, String, bool) {
    let devices = tempfile::tempdir().unwrap();
    let cpu = devices.path().join("system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3").unwrap();
    let topology = Topology { cgroups, ..Topology::new(devices.path().into()) };
    let runtime = InProcessRuntime::start(topology, policy).unwrap();
    let pod = pod("shop");
    move |name, (key, value), path| {
        let mut container = container(&pod, name);
        container.annotations.insert(format!("nri-topology/{key}"), value.to_owned());
        container.linux.mut_or_insert_default().cgroups_path = path.to_owned();
        let adjust = runtime.create_container(&pod, &container).unwrap().adjust.unwrap();
        let (linux, _) = (&adjust.linux, &devices);
        let cpu = &linux.resources.cpu;
        let shares = cpu.shares.as_ref().map_or(0, |shares| shares.value);
        let idle = linux.resources.unified.get("cpu.idle").cloned().unwrap_or_default();
        let says_idle = adjust.annotations.contains_key(facts::ASSIGNED_IDLE_KEY);
        (linux.cgroups_path.clone(), cpu.cpus.clone(), shares, idle, says_idle)
    }
}

fn got(
    path: &str,
    cpus: &str,
    shares: u64,
    idle: &str,
    says_idle: bool,
) -> (String, String, u64, String, bool) {
    (path.to_owned(), cpus.to_owned(), shares, idle.to_owned(), says_idle)
}

const IDLE: &str = "socket = ''\n[class.batch]\nidle = true\n\
    [class.scarce]\nidle = true\ncpus = 'exclusive'\ncount = 9\nunsatisfied = 'share'";

#[test]
fn exclusive_and_idle_containers_leave_the_cgroup_of_the_engine() {
    let create = start_on(Cgroups::V2, IDLE);
    let (exclusive, batch) = (("cpus", "1"), ("class", "batch"));
    assert_eq!(create("db", exclusive, "/docker/x"), got("/x", "0", EXCLUSIVE_SHARES, "", false));
    let slice = "system.slice:docker:y";
    assert_eq!(create("b", batch, slice), got("-.slice:docker:y", "0-3", 0, "1", true));
    // Below a cgroup that is not idle, a container is not idle to those beside it.
    assert_eq!(create("c", batch, "/kubepods/pod1/z"), got("", "1-3", 0, "1", false));
    let scarce = create("d", ("class", "scarce"), "/docker/d");
    assert_eq!(scarce, got("", "1-3", 0, "1", false));
    assert_eq!(create("pod", exclusive, "/kubepods/pod1/x"), got("", "1", 0, "", false));
    assert_eq!(create("web", ("a", "b"), "/docker/w"), got("", "2-3", 0, "", false));
}

#[test]
fn the_lowest_weight_borrows_no_exclusive_cpus() {
    let create = start_on(Cgroups::V1 { has_idle: false }, IDLE);
    let db = create("db", ("cpus", "1"), "/docker/x");
    assert_eq!(db, got("/x", "0", EXCLUSIVE_SHARES, "", false));
    assert_eq!(create("b", ("class", "batch"), "/docker/y"), got("/y", "1-3", 2, "", false));
}
