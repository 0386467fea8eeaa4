//! Updates by engines: what they give up, which others get when the update has been made, and what
//! they may not take.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_plugin::{
    opt,
    proto::{Container, Event, LinuxResources, PodSandbox},
    testing::{InProcessRuntime, container, pod},
};
use nri_topology::{
    allocator::Allocator,
    existing::{Assigned, Existing},
    hardware::{cpuset::CpuSet, snapshot::Snapshot, sysfs},
    placed::{Assignment, Kind},
    plugin::Topology,
    policy::Policy,
    request::{CPUS_KEY, request},
    subject::Subject,
};
use tempfile::TempDir;

const PARTITION: &str = "cpuset.cpus.partition";

/// Starts the plugin on a machine with four CPUs.
fn start(policy: &str) -> (TempDir, InProcessRuntime<Topology>) {
    start_as("test", policy)
}

fn start_as(runtime: &str, policy: &str) -> (TempDir, InProcessRuntime<Topology>) {
    let devices = tempfile::tempdir().unwrap();
    let cpu = devices.path().join("system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3").unwrap();
    let plugin = Topology::new(devices.path().to_owned());
    (devices, InProcessRuntime::start_as(runtime, plugin, policy).unwrap())
}

/// A container that wants as many exclusive CPUs as its limit says.
fn exclusive(pod: &PodSandbox, name: &str, limit: i64) -> Container {
    let mut container = container(pod, name);
    container.annotations.insert("nri-topology/class".to_owned(), "exclusive".to_owned());
    let linux = container.linux.mut_or_insert_default();
    let cpu = linux.resources.mut_or_insert_default().cpu.mut_or_insert_default();
    (cpu.quota, cpu.period) = (opt(Some(limit * 100_000)), opt(Some(100_000)));
    container
}

fn cpus(resources: &LinuxResources) -> CpuSet {
    resources.cpu.cpus.parse().unwrap()
}

#[test]
fn a_container_starts_without_cpus_that_became_exclusive_while_it_was_created() {
    let (_devices, runtime) = start_as("nri-container-runtime", "socket = ''");
    let pod = pod("shop");
    let mut web = container(&pod, "web");
    let reply = runtime.create_container(&pod, &web).unwrap();
    let had = cpus(&reply.adjust.linux.resources);
    let linux = web.linux.mut_or_insert_default();
    let resources = linux.resources.mut_or_insert_default();
    resources.cpu = reply.adjust.linux.resources.cpu.clone();
    runtime.notify(Event::START_CONTAINER, &pod, Some(&web)).unwrap();
    assert!(runtime.take_requests().is_empty());
    let reply = runtime.create_container(&pod, &exclusive(&pod, "db", 1)).unwrap();
    let own = cpus(&reply.adjust.linux.resources);
    runtime.take_requests();
    // The update in the reply has failed.
    runtime.notify(Event::START_CONTAINER, &pod, Some(&web)).unwrap();
    let requests = runtime.take_requests();
    let mut updates = requests.iter().flat_map(|request| &request.update);
    let update = updates.find(|update| update.container_id == web.id).unwrap();
    assert_eq!(cpus(&update.linux.resources), had.minus(&own));
}

#[test]
fn no_container_is_a_partition() {
    let (_devices, runtime) = start("socket = ''\n[class.own]\ncpus = 'unmanaged'");
    let pod = pod("shop");
    let mut resources = LinuxResources::new();
    resources.unified.insert(PARTITION.to_owned(), "root".to_owned());
    for (class, cpus) in [("shared", ""), ("shared", "2-3"), ("own", "")] {
        let mut container = container(&pod, &format!("{class}{cpus}"));
        container.annotations.insert("nri-topology/class".to_owned(), class.to_owned());
        resources.cpu.mut_or_insert_default().cpus = cpus.to_owned();
        let linux = container.linux.mut_or_insert_default();
        linux.resources = Some(resources.clone()).into();
        let reply = runtime.create_container(&pod, &container).unwrap();
        let unified = &reply.adjust.linux.resources.unified;
        assert_eq!(unified.get(PARTITION).map(String::as_str), Some("member"), "{class}");
        let reply = runtime.update_container(&pod, &container, &resources).unwrap();
        let own = reply.update.iter().find(|update| update.container_id == container.id).unwrap();
        assert_eq!(own.linux.resources.unified[PARTITION], "member", "{class}");
    }
}

#[test]
fn what_an_update_gives_up_is_given_to_others_when_it_has_been_made() {
    let (_devices, runtime) = start("socket = ''\nrequests_max = '100%'");
    let pod = pod("shop");
    let mut db = exclusive(&pod, "db", 3);
    let reply = runtime.create_container(&pod, &db).unwrap();
    let had = cpus(&reply.adjust.linux.resources);
    assert_eq!(had.len(), 3);
    let linux = db.linux.mut_or_insert_default();
    linux.resources.mut_or_insert_default().cpu.mut_or_insert_default().cpus = had.to_string();
    let less = exclusive(&pod, "db", 1).linux.resources.clone().unwrap();
    let reply = runtime.update_container(&pod, &db, &less).unwrap();
    let has = cpus(&reply.update[0].linux.resources);
    assert_eq!((has.len(), has.is_subset(&had)), (1, true));
    // The runtime may refuse the update yet.
    let other = exclusive(&pod, "other", 2);
    let refused = runtime.create_container(&pod, &other).unwrap_err().to_string();
    assert!(refused.contains("2 exclusive CPUs are wanted, and 1 CPUs are free"), "{refused}");
    runtime.notify(Event::POST_UPDATE_CONTAINER, &pod, Some(&db)).unwrap();
    let reply = runtime.create_container(&pod, &other).unwrap();
    let got = cpus(&reply.adjust.linux.resources);
    assert_eq!((got.len(), got.intersects(&has)), (2, false));
}

#[test]
fn another_policy_requests_what_an_update_may_not_have_given_up() {
    let policy = "socket = ''\nrequests_max = '100%'";
    let (_devices, runtime) = start(policy);
    let pod = pod("shop");
    let db = exclusive(&pod, "db", 3);
    runtime.create_container(&pod, &db).unwrap();
    let less = exclusive(&pod, "db", 1).linux.resources.clone().unwrap();
    runtime.update_container(&pod, &db, &less).unwrap();
    runtime.take_requests();
    runtime.reconfigure(policy).unwrap();
    let requests = runtime.take_requests();
    let mut updates = requests.iter().flat_map(|request| &request.update);
    let update = updates.find(|update| update.container_id == db.id).unwrap();
    assert_eq!(cpus(&update.linux.resources).len(), 1);
}

/// The engine's own update comes last: until then, its container has the CPUs that another one
/// would get.
#[test]
fn an_update_moves_no_exclusive_cpus_to_those_of_its_container() {
    let packages = "system/cpu/online: 0-3\n\
        system/cpu/cpu{0-1}/topology/package_cpus_list: 0-1\n\
        system/cpu/cpu{2-3}/topology/package_cpus_list: 2-3\n";
    let machine = sysfs::machine(&packages.parse::<Snapshot>().unwrap()).unwrap();
    let policy: Policy = "".parse().unwrap();
    let existing = |name: &str, kind: Kind, has: &str| {
        let mut subject = Subject { name: name.to_owned(), ..Subject::default() };
        let is_exclusive = kind == Kind::Exclusive;
        if is_exclusive {
            subject.annotations.insert(CPUS_KEY.to_owned(), "2".to_owned());
        }
        let assigned = Assigned {
            kind,
            class: if is_exclusive { "exclusive" } else { "shared" }.to_owned(),
            cpuset: None,
            count: is_exclusive.then_some(2),
            reason: None,
            borrows: false,
            has_own: true,
            is_proven: true,
        };
        let nodes = machine.memory_nodes();
        let has = Assignment { cpus: has.parse().unwrap(), nodes };
        (name.to_owned(), Existing::new(&policy, &subject, Some(&assigned), has))
    };
    let all = [existing("db", Kind::Exclusive, "0,2"), existing("web", Kind::Shared, "1,3")];
    let mut allocator = Allocator::new(machine.clone(), policy.clone()).unwrap();
    assert!(allocator.synchronize(&all.into()).is_empty());
    let web = Subject { name: "web".to_owned(), memory_limit: Some(1 << 20), ..Subject::default() };
    assert!(allocator.update("web", &web).unwrap().is_empty());
    let other = Subject { name: "other".to_owned(), ..Subject::default() };
    allocator.create("other", request(allocator.policy(), &other).unwrap()).unwrap();
    assert_eq!(allocator.containers()["db"].cpus.to_string(), "0-1");
}
