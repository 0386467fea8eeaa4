//! Exits and deletions that the wrapper does not see: while no `nrid` runs, during another verb, or
//! by a call of the bare runtime.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;

/// Kills `nrid`.
fn kill_nrid(node: &Node) {
    let nrid = node.nrid().unwrap();
    nrid.signal(Signal::KILL);
    wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
}

#[test]
fn the_pod_of_a_container_that_exited_stops() {
    let Some(go) = go("exit without nrid") else { return };
    for_each_runtime("exit without nrid", |runtime| {
        let node = Node::new(runtime);
        let (exited, running) = (node.id("exited"), node.id("running"));
        for id in [&exited, &running] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, id).success();
            node.call(&["start", id]).success();
        }
        kill_nrid(&node);
        node.bare(&["kill", &exited, "KILL"]).success();
        wait_until("the container to stop", || {
            (node.state(&exited)?["status"] == "stopped").then_some(())
        });
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go, "{}");
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(synchronized["containers"], json!([running]));
        assert_eq!(synchronized["pods"], json!([running]));
        node.call(&["delete", &exited]).success();
        plugin.journal.wait_for("RemovePodSandbox", &exited);
        assert_eq!(plugin.journal.events(&exited), ["RemoveContainer", "RemovePodSandbox"]);
    });
}

/// An update in progress delays StopContainer of the member. Nothing delays the sandbox, which
/// exits later.
#[test]
fn stop_container_precedes_stop_pod_sandbox_when_the_member_exited_first() {
    let Some(go) = go("order of stops") else { return };
    for_each_runtime("order of stops", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let go_on = node.path("go");
        let rules = json!({"rules": [{"event": "UpdateContainer", "until": go_on}]});
        let plugin = node.connect("10-slow", &go, &rules.to_string());
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
            std::fs::write(&go_on, "").unwrap();
            // Some runtimes refuse the update of a stopped container: its exit code is not checked.
            update.join().unwrap();
        });
        plugin.journal.wait_for("StopPodSandbox", &sandbox);
        let entries = plugin.journal.entries();
        let stops: Vec<_> = entries.iter().filter_map(|entry| entry["event"].as_str()).collect();
        let at = |event: &str| stops.iter().position(|e| *e == event);
        assert!(
            at("StopContainer").is_some() && at("StopContainer") < at("StopPodSandbox"),
            "{stops:?}"
        );
        for id in [&member, &sandbox] {
            node.call(&["delete", "--force", id]).success();
        }
        plugin.journal.wait_for("RemovePodSandbox", &sandbox);
    });
}

/// The sandbox is created again with the same id while RemovePodSandbox of its pod is in progress.
#[test]
fn a_sandbox_created_again_has_a_pod() {
    let Some(go) = go("the pod of a sandbox") else { return };
    for_each_runtime("the pod of a sandbox", |runtime| {
        let node = Node::new(runtime);
        node.configure("engines = { crio = 'ours' }");
        node.ctl(&["start"]).success();
        let go_on = node.path("go");
        let rules = json!({"rules": [{"event": "RemovePodSandbox", "until": go_on}]});
        let plugin = node.connect("10-slow", &go, &rules.to_string());
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
            // The second creation most likely starts in the first pause, and the removal of the
            // first pod most likely ends in the second one; the test holds without both.
            let moment = std::time::Duration::from_millis(300);
            std::thread::sleep(moment);
            std::fs::write(&go_on, "").unwrap();
            again.join().unwrap();
            std::thread::sleep(moment);
        });
        node.call(&["start", &sandbox]).success();
        node.call(&["delete", "--force", &sandbox]).success();
        let one = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];
        let received = || {
            let all = plugin.journal.events(&sandbox).into_iter();
            all.filter(|event| event.ends_with("PodSandbox")).collect::<Vec<_>>()
        };
        wait_until("the second RemovePodSandbox", || {
            (received().iter().filter(|e| *e == one[2]).count() == 2).then_some(())
        });
        assert_eq!(received(), [one, one].concat());
    });
}

#[test]
fn a_deletion_by_the_bare_runtime_is_detected() {
    let Some(go) = go("deleted by the bare runtime") else { return };
    for_each_runtime("deleted by the bare runtime", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        node.ctl(&["start"]).success();
        let plugin = node.connect("20-observer", &go, "{}");
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
        wait_until("no container on record", || (node.status()?["containers"] == 0).then_some(()));
    });
}
