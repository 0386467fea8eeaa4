//! What others do while the plugin is not connected: containers that say of themselves what only
//! the plugin says, by annotations of an assignment that their creators have made, and engines that
//! set CPUs of containers.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_plugin::{
    proto::{Container, ContainerUpdate, PodSandbox},
    testing::{InProcessRuntime, container, pod},
};
use nri_topology::plugin::Topology;
use tempfile::TempDir;

const NRID: &str = "nri-container-runtime";

const POLICY: &str = r#"
socket = ""
[class.gold]
cpus = "exclusive"
count = 2
by_rule_only = true
[[rule]]
class = "gold"
name = "db"
"#;

/// Starts the plugin on a machine with four CPUs.
fn start(runtime: &str, policy: &str) -> (TempDir, InProcessRuntime<Topology>) {
    let devices = tempfile::tempdir().unwrap();
    let cpu = devices.path().join("system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3").unwrap();
    let plugin = Topology::new(devices.path().to_owned());
    (devices, InProcessRuntime::start_as(runtime, plugin, policy).unwrap())
}

/// A container with CPUs, and annotations that are those of the plugin.
fn assigned(pod: &PodSandbox, name: &str, kind: &str, class: &str, cpus: &str) -> Container {
    let mut container = container(pod, name);
    for (key, value) in [("assigned", kind), ("assigned-class", class)] {
        container.annotations.insert(format!("nri-topology/{key}"), value.to_owned());
    }
    let linux = container.linux.mut_or_insert_default();
    let cpu = linux.resources.mut_or_insert_default().cpu.mut_or_insert_default();
    (cpu.cpus, cpu.mems) = (cpus.to_owned(), "0".to_owned());
    container
}

/// Adds what `nrid` says: the annotations that the plugin has set, with another index.
fn set_by_plugins(container: Container, keys: &[&str]) -> Container {
    let keys: Vec<_> = keys.iter().map(|key| (*key, "10-test")).collect();
    set_by(container, &keys)
}

/// Adds what `nrid` says: which plugin has set which annotations.
fn set_by(mut container: Container, plugins: &[(&str, &str)]) -> Container {
    let keys: Vec<String> = plugins
        .iter()
        .map(|(key, plugin)| format!("\"nri-topology/{key}\":\"{plugin}\""))
        .collect();
    let key = "facts.nri-container-runtime/set-by-plugins".to_owned();
    container.annotations.insert(key, format!("{{{}}}", keys.join(",")));
    container
}

/// A container in a class of exclusive CPUs, in a quota, with CPUs that `plugin` has set; empty:
/// its engine. It has wanted this many at its creation.
fn owned(pod: &PodSandbox, team: &str, cpus: &str, count: Option<&str>, plugin: &str) -> Container {
    let mut container = assigned(pod, team, "exclusive", "exclusive", cpus);
    container.labels.insert("team".to_owned(), team.to_owned());
    let mut keys = vec!["assigned", "assigned-class"];
    if let Some(count) = count {
        container.annotations.insert("nri-topology/assigned-count".to_owned(), count.to_owned());
        keys.push("assigned-count");
    }
    let mut container = set_by_plugins(container, &keys);
    let resources = match plugin {
        "" => "{}".to_owned(),
        plugin => format!("{{\"cpu.cpus\":\"{plugin}\"}}"),
    };
    let key = "facts.nri-container-runtime/resources-set-by-plugins".to_owned();
    container.annotations.insert(key, resources);
    container
}

/// Synchronizes with containers of one pod, and returns the CPUs that they get.
fn synchronized(
    runtime: &InProcessRuntime<Topology>,
    pod: &PodSandbox,
    containers: &[Container],
) -> Vec<(String, String)> {
    let updates = runtime.synchronize(std::slice::from_ref(pod), containers).unwrap();
    let cpus = |u: ContainerUpdate| u.linux.resources.cpu.cpus.clone();
    updates.into_iter().map(|u| (u.container_id.clone(), cpus(u))).collect()
}

#[test]
fn a_forged_assignment_takes_no_cpus_from_the_container_that_a_rule_gives_them() {
    for name in [NRID, "containerd"] {
        let (_devices, runtime) = start(name, POLICY);
        let pod = pod("shop");
        let mut miner = assigned(&pod, "miner", "exclusive", "gold", "0-1");
        if name == NRID {
            miner = set_by_plugins(miner, &[]);
        }
        let updates = synchronized(&runtime, &pod, std::slice::from_ref(&miner));
        assert_eq!(updates, [(miner.id.clone(), "0-3".to_owned())], "{name}");
        let reply = runtime.create_container(&pod, &container(&pod, "db")).unwrap();
        assert_eq!(reply.adjust.linux.resources.cpu.cpus, "0-1", "{name}");
        assert_eq!(reply.update[0].linux.resources.cpu.cpus, "2-3", "{name}");
    }
}

#[test]
fn an_assignment_that_the_plugin_has_written_is_kept() {
    for name in [NRID, "containerd"] {
        let (_devices, runtime) = start(name, POLICY);
        let pod = pod("shop");
        let db = assigned(&pod, "db", "exclusive", "gold", "1-2");
        let web = assigned(&pod, "web", "shared", "shared", "0,3");
        let set = |c: Container| match name {
            NRID => set_by_plugins(c, &["assigned", "assigned-class"]),
            _ => c,
        };
        let containers = [db, web].map(set);
        assert_eq!(synchronized(&runtime, &pod, &containers), []);
        // And so it is with another policy, which gives them to no container.
        runtime.reconfigure("socket = ''\n[class.gold]\ncpus = 'exclusive'").unwrap();
        assert!(runtime.take_requests().is_empty(), "{name}");
    }
}

/// A plugin that may only set annotations must not give CPUs by those of this one.
#[test]
fn an_assignment_that_another_plugin_has_written_does_not_count() {
    let (_devices, runtime) = start(NRID, POLICY);
    let pod = pod("shop");
    for plugins in [
        [("assigned", "20-rules"), ("assigned-class", "20-rules")],
        [("assigned", "10-test"), ("assigned-class", "20-rules")],
        [("assigned", "20-rules"), ("assigned-class", "10-test")],
        [("assigned", "10-other-test"), ("assigned-class", "10-test")],
    ] {
        let miner = set_by(assigned(&pod, "miner", "exclusive", "gold", "0-1"), &plugins);
        let updates = synchronized(&runtime, &pod, std::slice::from_ref(&miner));
        assert_eq!(updates, [(miner.id.clone(), "0-3".to_owned())], "{plugins:?}");
    }
}

/// An earlier `nrid` says nothing of owners, and there the policy decides.
#[test]
fn an_assignment_without_proof_counts_as_far_as_the_policy_gives_it() {
    for name in [NRID, "containerd"] {
        let (_devices, runtime) = start(name, "socket = ''\nrequests_max = 1");
        let pod = pod("shop");
        let with = |name: &str, created_at: i64, cpus: &str, count: &str| {
            let mut container = assigned(&pod, name, "exclusive", "exclusive", cpus);
            container.annotations.insert("nri-topology/cpus".to_owned(), count.to_owned());
            container.created_at = created_at;
            container
        };
        // One has what it asks for, another says that the same CPU is its own, and a third one has
        // another number of CPUs than it asks for.
        let all = [with("c", 3, "2", "1"), with("b", 1, "2", "1"), with("a", 2, "0-1", "1")];
        let mut updates = synchronized(&runtime, &pod, &all);
        updates.sort();
        let mut expected =
            [&all[0], &all[2]].map(|container| (container.id.clone(), "0-1,3".to_owned()));
        expected.sort();
        assert_eq!(updates, expected, "{name}");
    }
}

#[test]
fn what_a_container_says_of_its_assignment_at_its_creation_is_overwritten() {
    let (_devices, runtime) = start(NRID, POLICY);
    let pod = pod("shop");
    let mut miner = assigned(&pod, "miner", "exclusive", "gold", "");
    let cpuset = "nri-topology/assigned-cpuset".to_owned();
    let count = "nri-topology/assigned-count".to_owned();
    miner.annotations.insert(cpuset.clone(), "0-3".to_owned());
    miner.annotations.insert(count.clone(), "3".to_owned());
    let reply = runtime.create_container(&pod, &miner).unwrap();
    let annotations = &reply.adjust.annotations;
    assert_eq!(annotations["nri-topology/assigned"], "shared");
    assert_eq!(annotations["nri-topology/assigned-class"], "shared");
    for key in [cpuset, count.clone()] {
        assert!(annotations.contains_key(&format!("-{key}")), "{annotations:?}");
    }
    assert_eq!(reply.adjust.linux.resources.cpu.cpus, "0-3");
    let reply = runtime.create_container(&pod, &container(&pod, "db")).unwrap();
    assert_eq!(reply.adjust.annotations[&count], "2");
}

const QUOTAS: &str = r#"
socket = ""
requests_max = 0
[[quota]]
labels = { team = "a" }
exclusive_cpus = 1
[[quota]]
labels = { team = "b" }
exclusive_cpus = 2
"#;

/// `docker update --cpuset-cpus 0-2 --cpu-quota -1` of a container with one CPU.
#[test]
fn an_update_without_the_plugin_takes_no_cpus_from_others_and_none_beyond_the_quota() {
    let (_devices, runtime) = start(NRID, QUOTAS);
    let pod = pod("shop");
    for (count, plugin, expected) in [
        (Some("1"), "", "0"),
        (Some("1"), "20-other", "0"),
        // It could want any number.
        (None, "", "0,3"),
    ] {
        let mut older = owned(&pod, "a", "0-2", count, plugin);
        older.created_at = 1;
        let mut owner = owned(&pod, "b", "1-2", Some("2"), "20-test");
        owner.created_at = 2;
        let updates = synchronized(&runtime, &pod, &[older.clone(), owner.clone()]);
        assert_eq!(updates, [(older.id.clone(), expected.to_owned())], "{plugin:?}");
        // With the same policy once more, they have these.
        runtime.reconfigure(QUOTAS).unwrap();
        let requests = runtime.take_requests();
        let mut updates = requests.iter().flat_map(|request| &request.update);
        assert!(updates.all(|update| update.container_id != owner.id), "{requests:?}");
    }
}

/// What has been given stays under a smaller quota, but others come first.
#[test]
fn cpus_of_the_plugin_are_kept_under_a_smaller_quota_unless_they_were_shared() {
    let (_devices, runtime) = start(NRID, QUOTAS);
    let pod = pod("shop");
    let more = owned(&pod, "a", "0-1", Some("2"), "10-test");
    assert_eq!(synchronized(&runtime, &pod, std::slice::from_ref(&more)), []);
    // It had to share its CPUs when the plugin ended.
    let mut web = assigned(&pod, "web", "shared", "shared", "0-1");
    web = set_by_plugins(web, &["assigned", "assigned-class"]);
    let updates = synchronized(&runtime, &pod, &[more.clone(), web.clone()]);
    assert_eq!(updates.len(), 2, "{updates:?}");
    assert!(updates.iter().all(|(_, cpus)| cpus == "0-3"), "{updates:?}");
}

/// Only such a container may be in a class with exclusive CPUs without saying how many.
#[test]
fn a_container_with_the_engines_cpus_keeps_them_at_a_restart_without_proof() {
    let policy = "socket = \"\"\n[class.fast]\ncpus = \"exclusive\"\n";
    let (_devices, runtime) = start("containerd", policy);
    let pod = pod("shop");
    let mut pinned = assigned(&pod, "db", "pinned", "fast", "2-3");
    pinned.annotations.insert("nri-topology/class".to_owned(), "fast".to_owned());
    let batch = container(&pod, "batch");
    let updates = synchronized(&runtime, &pod, &[pinned, batch.clone()]);
    assert_eq!(updates, [(batch.id, "0-3".to_owned())]);
}

/// A container that had lost its exclusive CPUs has those of the shared pool, which can be as many
/// as it wanted.
#[test]
fn a_container_that_shared_cpus_takes_none_from_one_that_has_its_own() {
    let (_devices, runtime) = start(NRID, "socket = ''\nrequests_max = '100%'");
    let pod = pod("shop");
    let mut older = owned(&pod, "older", "2-3", Some("2"), "10-test");
    let mut db = owned(&pod, "db", "0-1", Some("2"), "10-test");
    (older.created_at, db.created_at) = (1, 2);
    let web = assigned(&pod, "web", "shared", "shared", "2-3");
    let web = set_by_plugins(web, &["assigned", "assigned-class"]);
    assert_eq!(synchronized(&runtime, &pod, &[older, db, web]), []);
}
