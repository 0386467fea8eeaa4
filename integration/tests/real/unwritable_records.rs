//! Records that cannot be written, for example because the disk is full: creations and updates are
//! refused, records of events that have happened are written later. To make writing fail, the tests
//! move the directory of the records away.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// Moves the directory of these records out of the state directory.
fn take_away(node: &Node, name: &str) {
    fs::rename(node.state_dir().join(name), node.path(name)).unwrap();
}

fn bring_back(node: &Node, name: &str) {
    fs::rename(node.path(name), node.state_dir().join(name)).unwrap();
}

#[test]
fn a_creation_refused_for_its_record_leaves_no_pod() {
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
                take_away(&node, records);
                let said = node.create(&bundle, id).refusal();
                assert!(said.contains(records), "{said}");
                assert!(node.state(id).is_none());
                bring_back(&node, records);
                wait_until("no pod", || (node.status()?["pods"] == 0).then_some(()));
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
        take_away(&node, "containers");
        let said = node.call(&["update", "--pids-limit", "41", &id]).refusal();
        assert!(said.contains("containers"), "{said}");
        bring_back(&node, "containers");
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
        take_away(&node, "containers");
        node.call(&["start", &id]).success();
        bring_back(&node, "containers");
        let phase = || {
            let record: Value =
                serde_json::from_slice(&fs::read(node.records("containers").first()?).ok()?)
                    .ok()?;
            record["phase"].as_str().map(str::to_owned)
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
    let Some(go) = go("no room for a pod that runs") else { return };
    for_each_runtime("no room for a pod that runs", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let id = node.id("sandbox");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.annotate_as_crio(&id, "sandbox");
        node.create(&bundle, &id).success();
        take_away(&node, "pods");
        node.call(&["start", &id]).success();
        let nrid = node.nrid().unwrap();
        // Stopped until it is killed, nrid cannot write the record later.
        nrid.signal(Signal::STOP);
        bring_back(&node, "pods");
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go, "{}");
        let pods = plugin.journal.wait_for_own("Synchronize")["pods"].clone();
        assert_eq!(pods, serde_json::json!([id]));
        node.call(&["delete", "--force", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), ["StopPodSandbox", "RemovePodSandbox"]);
    });
}

#[test]
fn the_next_nrid_synchronizes_no_stopped_pod_whose_record_was_not_written() {
    let Some(go) = go("no room for a pod that stopped") else { return };
    for_each_runtime("no room for a pod that stopped", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        take_away(&node, "pods");
        node.call(&["kill", &id, "KILL"]).success();
        plugin.journal.wait_for("StopPodSandbox", &id);
        let nrid = node.nrid().unwrap();
        nrid.signal(Signal::STOP);
        bring_back(&node, "pods");
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        node.ctl(&["start"]).success();
        let late = node.connect("20-late", &go, "{}");
        let synchronized = late.journal.wait_for_own("Synchronize");
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
