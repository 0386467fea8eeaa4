//! What happens while no `nrid` runs is known to the next one, and to the plugins that it has.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;

/// Ends `nrid` without a word.
fn kill_nrid(node: &Node) {
    let nrid = node.nrid().unwrap();
    nrid.signal(Signal::KILL);
    wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
}

#[test]
fn the_pod_of_a_container_that_exited_stops() {
    let Some(go) = go("meanwhile") else { return };
    for_each_runtime("meanwhile", |runtime| {
        let node = Node::new(runtime);
        let (gone, stays) = (node.id("gone"), node.id("stays"));
        for id in [&gone, &stays] {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            node.create(&bundle, id).success();
            node.call(&["start", id]).success();
        }
        kill_nrid(&node);
        node.bare(&["kill", &gone, "KILL"]).success();
        wait_until("its end", || (node.state(&gone)?["status"] == "stopped").then_some(()));
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-late", &go, "{}");
        let synchronized = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(synchronized["containers"], json!([stays]));
        assert_eq!(synchronized["pods"], json!([stays]));
        node.call(&["delete", &gone]).success();
        plugin.journal.wait_for("RemovePodSandbox", &gone);
        assert_eq!(plugin.journal.events(&gone), ["RemoveContainer", "RemovePodSandbox"]);
    });
}

/// Another verb of the member holds up its end, and none holds up the sandbox's.
#[test]
fn a_member_that_ended_first_stops_before_its_pod() {
    let Some(go) = go("the end of a pod") else { return };
    for_each_runtime("the end of a pod", |runtime| {
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
                wait_until("its end", || (node.state(id)?["status"] == "stopped").then_some(()));
            }
            std::fs::write(&go_on, "").unwrap();
            // Some runtimes refuse it, for the container has ended.
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

/// The pod of the last member is on its way out, and its sandbox comes again.
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
            // That it has begun is likely then, and not needed; nor is it below that the first
            // pod's end is over.
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
        wait_until("the second end", || {
            (received().iter().filter(|e| *e == one[2]).count() == 2).then_some(())
        });
        assert_eq!(received(), [one, one].concat());
    });
}

#[test]
fn a_container_deleted_without_the_wrapper_is_noticed() {
    let Some(go) = go("deleted without a word") else { return };
    for_each_runtime("deleted without a word", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        node.ctl(&["start"]).success();
        let plugin = node.connect("20-hears", &go, "{}");
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
        wait_until("nothing known", || (node.status()?["containers"] == 0).then_some(()));
    });
}
