//! Tests of records that cannot be written, for example because the disk is full. Creations and
//! updates are then refused; the record of a start or an exit is written later. The tests move the
//! directory of the records, so that writing fails.

use nri_integration::*;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;
use std::fs;

/// Moves a directory of records out of the state directory.
fn move_out(node: &Node, name: &str) {
    fs::rename(node.state_dir().join(name), node.path(name)).unwrap();
}

/// Moves a directory of records back into the state directory.
fn move_back(node: &Node, name: &str) {
    fs::rename(node.path(name), node.state_dir().join(name)).unwrap();
}

/// Moves a directory of records back, and kills `nrid` before it can write a record there: SIGSTOP
/// stops `nrid` during the move.
fn kill_before_write(node: &Node, name: &str) {
    let nrid = node.nrid().unwrap();
    nrid.signal(Signal::STOP);
    move_back(node, name);
    nrid.signal(Signal::KILL);
    wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
}

#[test]
fn a_creation_whose_record_cannot_be_written_is_refused_and_leaves_no_pod() {
    for_each_runtime("no room for a pod", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let [sandbox, member, alone] = ["sandbox", "member", "alone"].map(|name| node.id(name));
        for (id, pod, kind) in [
            (&sandbox, Some(&sandbox), "sandbox"),
            (&member, Some(&node.id("pod")), "container"),
            (&alone, None, ""),
        ] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            pod.inspect(|pod| bundle.annotate_as_crio(pod, kind));
            for records in ["containers", "pods"] {
                move_out(&node, records);
                let line = node.create(&bundle, id).refusal();
                assert!(line.contains(records), "{line}");
                assert!(node.state(id).is_none());
                move_back(&node, records);
                wait_until("the pod to be removed", || (node.status()?["pods"] == 0).then_some(()));
            }
            node.create(&bundle, id).success();
            node.call(&["delete", "--force", id]).success();
            wait_until("the pod's record to be removed", || {
                node.records("pods").is_empty().then_some(())
            });
        }
    });
}

#[test]
fn an_update_is_refused_when_its_record_cannot_be_written() {
    for_each_runtime("no room for an update", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\nshares = 300\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        node.call(&["update", "--pids-limit", "40", &id]).success();
        move_out(&node, "containers");
        let line = node.call(&["update", "--pids-limit", "41", &id]).refusal();
        assert!(line.contains("containers"), "{line}");
        move_back(&node, "containers");
        let pids = || node.cgroup_file(&id, "pids", "pids.max", "pids.max");
        assert_eq!(pids(), "40");
        node.ctl(&["verify", &id]).success();
        node.call(&["update", "--pids-limit", "42", &id]).success();
        assert_eq!(pids(), "42");
        node.call(&["delete", "--force", &id]).success();
    });
}

#[test]
fn the_record_of_a_started_container_is_written_later() {
    for_each_runtime("no room for a while", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        move_out(&node, "containers");
        node.call(&["start", &id]).success();
        move_back(&node, "containers");
        let phase = || {
            let record: Value =
                serde_json::from_slice(&fs::read(node.records("containers").first()?).ok()?)
                    .ok()?;
            record["status"].as_str().map(str::to_owned)
        };
        wait_until("the record", || (phase()? == "running").then_some(()));
        node.call(&["delete", "--force", &id]).success();
        wait_until("the record to be removed", || {
            node.records("containers").is_empty().then_some(())
        });
    });
}

#[test]
fn the_next_nrid_restores_a_running_pod_whose_record_was_not_written() {
    let Some(go_plugin) = go_plugin("no room for a pod that runs") else { return };
    for_each_runtime("no room for a pod that runs", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let id = node.id("sandbox");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.annotate_as_crio(&id, "sandbox");
        node.create(&bundle, &id).success();
        move_out(&node, "pods");
        node.call(&["start", &id]).success();
        kill_before_write(&node, "pods");
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go_plugin, "{}");
        let pods = plugin.journal.wait_for_plugin_event("Synchronize")["pods"].clone();
        assert_eq!(pods, serde_json::json!([id]));
        node.call(&["delete", "--force", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), ["StopPodSandbox", "RemovePodSandbox"]);
    });
}

#[test]
fn a_stopped_pod_is_not_synchronized_even_if_its_record_is_older_than_the_stop() {
    let Some(go_plugin) = go_plugin("no room for a pod that stopped") else { return };
    for_each_runtime("no room for a pod that stopped", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        move_out(&node, "pods");
        node.call(&["kill", &id, "KILL"]).success();
        plugin.journal.wait_for("StopPodSandbox", &id);
        kill_before_write(&node, "pods");
        node.ctl(&["start"]).success();
        let late = node.connect("20-late", &go_plugin, "{}");
        let synchronized = late.journal.wait_for_plugin_event("Synchronize");
        // The journal omits empty lists.
        assert_eq!(
            (&synchronized["pods"], &synchronized["containers"]),
            (&Value::Null, &Value::Null)
        );
        node.call(&["delete", &id]).success();
        late.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(late.journal.events(&id), ["RemoveContainer", "RemovePodSandbox"]);
    });
}

/// A write beyond the limit of the size of files raises SIGXFSZ, whose default action ends a
/// process.
#[test]
fn a_limit_of_the_size_of_files_does_not_end_nrid() {
    for_each_runtime("limited file size", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let nrid = node.nrid().unwrap();
        let limit = |current| {
            let limit = Rlimit { current, maximum: None };
            prlimit(Pid::from_raw(nrid.0.cast_signed()), Resource::Fsize, limit).unwrap();
        };
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/true"]).make();
        limit(Some(1000));
        let line = node.create(&bundle, &id).refusal();
        assert!(line.contains("record") && line.contains("File too large"), "{line}");
        limit(None);
        node.create(&bundle, &id).success();
        assert_eq!(node.nrid().map(|process| process.0), Some(nrid.0));
        node.call(&["delete", "--force", &id]).success();
    });
}
