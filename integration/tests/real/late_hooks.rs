//! A hook may outlive the runtime that called it: what it reports then has been settled, and may be
//! about a container that is no more.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    process::Command,
};

/// Our hook of this stage, as the bundle's config.json has it while its container lives.
fn hook(bundle: &Bundle, stage: &str) -> Value {
    let config = bundle.oci_config();
    let ours =
        |hook: &&Value| hook["path"].as_str().is_some_and(|path| path.ends_with("nri-oci-hook"));
    config["hooks"][stage]
        .as_array()
        .and_then(|all| all.iter().find(ours).cloned())
        .expect("our hook")
}

/// Calls it, as a runtime would.
fn call(node: &Node, hook: &Value) -> Ended {
    let mut arguments = hook["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    let mut command = Command::new(hook["path"].as_str().unwrap());
    arguments.next();
    let state = node.path("state.json");
    fs::write(&state, r#"{"status": "created", "pid": 1}"#).unwrap();
    command.args(arguments).stdin(File::open(state).unwrap());
    node.run(command)
}

#[test]
fn a_late_hook_causes_no_second_notification() {
    let Some(go) = go("late hooks") else { return };
    for_each_runtime("late hooks", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-hears", &go, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &id]).success();
        plugin.journal.wait_for("PostStartContainer", &id);
        let [create, start] = ["createRuntime", "poststart"].map(|stage| hook(&bundle, stage));
        call(&node, &create).success();
        call(&node, &start).success();
        node.call(&["kill", &id, "KILL"]).success();
        plugin.journal.wait_for("StopPodSandbox", &id);
        call(&node, &create).success();
        call(&node, &start).success();
        node.call(&["delete", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), life_cycle(&[]));
    });
}

#[test]
fn a_late_hook_does_not_count_for_the_next_container_of_the_id() {
    let Some(go) = go("late hooks of another one") else { return };
    for_each_runtime("late hooks of another one", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-hears", &go, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &id]).success();
        let [create, stop] = ["createRuntime", "poststop"].map(|stage| hook(&bundle, stage));
        node.call(&["delete", "--force", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        let before = plugin.journal.events(&id).len();
        node.create(&bundle, &id).success();
        let last = || plugin.journal.events(&id).pop();
        wait_until("what is told after", || (last()? == "PostCreateContainer").then_some(()));
        call(&node, &stop).success();
        assert!(call(&node, &create).code == Some(1), "the runtime that called it is not to go on");
        assert_eq!(node.status().unwrap()["containers"], 1);
        node.call(&["delete", "--force", &id]).success();
        wait_until("the end", || {
            (plugin.journal.events(&id).last().map(String::as_str) == Some("RemovePodSandbox"))
                .then_some(())
        });
        let events = plugin.journal.events(&id);
        let after: Vec<_> = events[before..].iter().map(String::as_str).collect();
        let never_started: Vec<_> = [&TO_START[..4], &FROM_STOP].concat();
        assert_eq!(after, never_started);
    });
}

/// The hook that is at work.
fn hook_of(node: &Node) -> Process {
    let dir = node.state_dir().into_os_string().into_string().unwrap();
    let is_hook = |process: &Process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
        process.program().is_some_and(|program| program.ends_with("nri-oci-hook"))
            && String::from_utf8_lossy(&line).contains(&dir)
    };
    Process::all().into_iter().find(is_hook).expect("a hook that waits for its answer")
}

#[test]
fn a_hook_whose_nrid_is_killed_calls_the_next_one() {
    let Some(go) = go("hooks without nrid") else { return };
    for_each_runtime("hooks without nrid", |runtime| {
        let node = Node::new(runtime);
        let go_on = node.path("go");
        let rules = json!({"rules": [{"event": "StartContainer", "until": go_on}]});
        let journal = node.launch("10-slow", &go, &rules.to_string());
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        let killed = std::thread::scope(|scope| {
            let running = scope.spawn(|| node.call(&["run", "--detach", "--bundle", dir, &id]));
            journal.wait_for("StartContainer", &id);
            let nrid = node.nrid().unwrap();
            // It does not wait for long, a test may.
            let hook = hook_of(&node);
            hook.signal(Signal::STOP);
            nrid.signal(Signal::KILL);
            wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
            fs::write(&go_on, "").unwrap();
            node.ctl(&["start"]).success();
            hook.signal(Signal::CONT);
            running.join().unwrap().success();
            nrid
        });
        assert_eq!(node.state(&id).unwrap()["status"], "running");
        assert_ne!(node.nrid().unwrap(), killed);
        journal.wait_for("PostStartContainer", &id);
        // The plugin that the next one launched was synchronized with it, and asked again.
        let synchronized = journal.entries().iter().any(|entry| {
            entry["event"] == "Synchronize"
                && entry["containers"]
                    .as_array()
                    .is_some_and(|all| all.contains(&id.as_str().into()))
        });
        assert!(synchronized, "{:?}", journal.entries());
        let received = journal.events(&id);
        assert_eq!(
            received.iter().filter(|event| *event == "StartContainer").count(),
            2,
            "{received:?}"
        );
        assert_eq!(
            received.iter().filter(|event| *event == "PostCreateContainer").count(),
            1,
            "{received:?}"
        );
        node.call(&["delete", "--force", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
    });
}

/// `run` was killed before the runtime kept a state, and what it left is deleted behind our back.
/// No real one can be killed there each time.
#[test]
fn the_end_of_a_container_whose_run_was_killed_is_noticed() {
    let Some(go) = go("a killed run") else { return };
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&fake_runtime(dir.path()));
    let end = dir.path().join("end");
    let script = json!({"state": {"exit": 1}, "run": {"until": end, "exit": 1}});
    fs::write(dir.path().join("runc.script.json"), script.to_string()).unwrap();
    let calls = dir.path().join("runc.calls.jsonl");
    let states = || fs::read_to_string(&calls).unwrap_or_default().matches("\"state\"").count();
    node.ctl(&["start"]).success();
    let plugin = node.connect("10-hears", &go, "{}");
    let id = node.id("c");
    let bundle = node.bundle(&id).make();
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]));
        plugin.journal.wait_for("CreateContainer", &id);
        wait_until("its call", || {
            fs::read_to_string(&calls).is_ok_and(|c| c.contains("\"run\"")).then_some(())
        });
        fs::create_dir_all(node.root().join(&id)).unwrap();
        let before = states();
        fs::write(&end, "").unwrap();
        assert_eq!(running.join().unwrap().code, Some(1));
        wait_until("the look at what it left", || (states() > before).then_some(()));
    });
    assert_eq!(node.status().unwrap()["containers"], 1);
    fs::remove_dir(node.root().join(&id)).unwrap();
    plugin.journal.wait_for("RemovePodSandbox", &id);
    assert_eq!(node.status().unwrap()["containers"], 0);
}
