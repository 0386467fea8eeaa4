//! Tests of exits and deletions that no call of the wrapper reports: while no `nrid` runs, during
//! another verb, by a call of the bare runtime, or without any call of a runtime.

use nri_integration::*;
use serde_json::json;
use std::fs;

#[test]
fn the_next_nrid_stops_the_pod_of_a_container_that_exited() {
    let Some(go_plugin) = go_plugin("exit without nrid") else { return };
    for_each_runtime("exit without nrid", |runtime| {
        let node = Node::new(runtime);
        let (exited, running) = (node.id("exited"), node.id("running"));
        for id in [&exited, &running] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, id).success();
            node.call(&["start", id]).success();
        }
        node.kill_nrid();
        node.bare(&["kill", &exited, "KILL"]).success();
        wait_until("the container to stop", || {
            (node.state(&exited)?["status"] == "stopped").then_some(())
        });
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go_plugin, "{}");
        let synchronized = plugin.journal.wait_for_plugin_event("Synchronize");
        assert_eq!(synchronized["containers"], json!([running]));
        assert_eq!(synchronized["pods"], json!([running]));
        node.call(&["delete", &exited]).success();
        plugin.journal.wait_for("RemovePodSandbox", &exited);
        assert_eq!(plugin.journal.events(&exited), ["RemoveContainer", "RemovePodSandbox"]);
    });
}

/// A container of a pod, the member, exits before the pod's sandbox container. An update in
/// progress delays StopContainer of the member, but must not let StopPodSandbox overtake it.
#[test]
fn stop_container_precedes_stop_pod_sandbox_when_the_member_exited_first() {
    let Some(go_plugin) = go_plugin("order of stops") else { return };
    for_each_runtime("order of stops", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let resume = node.path("resume");
        let rules = json!({"rules": [{"event": "UpdateContainer", "until": resume}]});
        let plugin = node.connect("10-slow", &go_plugin, &rules.to_string());
        let [sandbox, member] = ["sandbox", "member"].map(|name| node.id(name));
        for (id, kind) in [(&sandbox, "sandbox"), (&member, "container")] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            bundle.annotate_as_crio(&sandbox, kind);
            node.create(&bundle, id).success();
            node.call(&["start", id]).success();
        }
        std::thread::scope(|scope| {
            let update = scope.spawn(|| node.call(&["update", "--pids-limit", "100", &member]));
            plugin.journal.wait_for("UpdateContainer", &member);
            for id in [&member, &sandbox] {
                node.bare(&["kill", id, "KILL"]).success();
                wait_until("the container to stop", || {
                    (node.state(id)?["status"] == "stopped").then_some(())
                });
            }
            fs::write(&resume, "").unwrap();
            // The exit code is not checked: some runtimes refuse the update of a stopped container.
            update.join().unwrap();
        });
        plugin.journal.wait_for("StopPodSandbox", &sandbox);
        let entries = plugin.journal.entries();
        let events: Vec<_> = entries.iter().filter_map(|entry| entry["event"].as_str()).collect();
        let position = |event: &str| events.iter().position(|e| *e == event);
        assert!(
            position("StopContainer").is_some()
                && position("StopContainer") < position("StopPodSandbox"),
            "{events:?}"
        );
        for id in [&member, &sandbox] {
            node.call(&["delete", "--force", id]).success();
        }
        plugin.journal.wait_for("RemovePodSandbox", &sandbox);
    });
}

/// The sandbox is created again with the same id while RemovePodSandbox of its pod is in progress.
#[test]
fn a_sandbox_that_is_created_again_gets_a_new_pod() {
    let Some(go_plugin) = go_plugin("the pod of a sandbox") else { return };
    for_each_runtime("the pod of a sandbox", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let resume = node.path("resume");
        let rules = json!({"rules": [{"event": "RemovePodSandbox", "until": resume}]});
        let plugin = node.connect("10-slow", &go_plugin, &rules.to_string());
        let [sandbox, member] = ["sandbox", "member"].map(|name| node.id(name));
        let create = |id: &str, kind: &str| {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            bundle.annotate_as_crio(&sandbox, kind);
            node.create(&bundle, id).success();
        };
        create(&sandbox, "sandbox");
        node.call(&["start", &sandbox]).success();
        create(&member, "container");
        for id in [&sandbox, &member] {
            node.call(&["delete", "--force", id]).success();
        }
        plugin.journal.wait_for("RemovePodSandbox", &sandbox);
        std::thread::scope(|scope| {
            let again = scope.spawn(|| create(&sandbox, "sandbox"));
            // During the first pause the second creation most likely starts, and during the second
            // pause the removal of the first pod most likely ends. The test holds in any case.
            let pause = std::time::Duration::from_millis(300);
            std::thread::sleep(pause);
            fs::write(&resume, "").unwrap();
            again.join().unwrap();
            std::thread::sleep(pause);
        });
        node.call(&["start", &sandbox]).success();
        node.call(&["delete", "--force", &sandbox]).success();
        let pod_events = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];
        let received = || {
            let all = plugin.journal.events(&sandbox).into_iter();
            all.filter(|event| event.ends_with("PodSandbox")).collect::<Vec<_>>()
        };
        wait_until("the second RemovePodSandbox", || {
            (received().iter().filter(|e| *e == pod_events[2]).count() == 2).then_some(())
        });
        assert_eq!(received(), [pod_events, pod_events].concat());
    });
}

#[test]
fn a_deletion_by_the_bare_runtime_is_detected() {
    let Some(go_plugin) = go_plugin("deleted by the bare runtime") else { return };
    for_each_runtime("deleted by the bare runtime", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        node.ctl(&["start"]).success();
        let plugin = node.connect("20-observer", &go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        node.bare(&["delete", "--force", &id]).success();
        for journal in [&journal, &plugin.journal] {
            journal.wait_for("RemovePodSandbox", &id);
        }
        assert_eq!(plugin.journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
        wait_until("the record to be removed", || {
            (node.status()?["containers"] == 0).then_some(())
        });
    });
}

/// The runtime creates the container's directory and fails before it writes the state file; later
/// the directory is deleted without a verb. The test uses a fake runtime, since a real runtime does
/// not reliably fail at that point.
#[test]
fn the_removal_of_a_container_without_a_state_file_is_detected() {
    let Some(go_plugin) = go_plugin("container without a state file") else { return };
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&fake_runtime(dir.path()));
    let end = dir.path().join("end");
    let script = json!({"state": {"exit": 1}, "run": {"until": end, "exit": 1}});
    fs::write(dir.path().join("runc.script.json"), script.to_string()).unwrap();
    let calls = dir.path().join("runc.calls.jsonl");
    let states = || fs::read_to_string(&calls).unwrap_or_default().matches("\"state\"").count();
    node.ctl(&["start"]).success();
    let plugin = node.connect("10-observer", &go_plugin, "{}");
    let id = node.id("c");
    let bundle = node.bundle(&id).make();
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]));
        plugin.journal.wait_for("CreateContainer", &id);
        wait_until("the call of the runtime", || {
            fs::read_to_string(&calls).is_ok_and(|c| c.contains("\"run\"")).then_some(())
        });
        fs::create_dir_all(node.root().join(&id)).unwrap();
        let before = states();
        fs::write(&end, "").unwrap();
        assert_eq!(running.join().unwrap().code, Some(1));
        wait_until("nrid to call `state`", || (states() > before).then_some(()));
    });
    assert_eq!(node.status().unwrap()["containers"], 1);
    fs::remove_dir(node.root().join(&id)).unwrap();
    plugin.journal.wait_for("RemovePodSandbox", &id);
    assert_eq!(node.status().unwrap()["containers"], 0);
}
