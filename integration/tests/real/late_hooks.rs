//! Tests of late hooks: a hook may outlive the runtime that called it, and call `nrid` after the
//! event was already sent, or after the container was removed. It may also outlive the `nrid` that
//! it called, and call the next one.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    process::Command,
};

/// Returns the hook of this stage that `nrid` has injected into the `config.json` of a container.
fn hook(node: &Node, id: &str, stage: &str) -> Value {
    let config = node.adjusted(id);
    let injected =
        |hook: &&Value| hook["path"].as_str().is_some_and(|path| path.ends_with("nri-oci-hook"));
    config["hooks"][stage]
        .as_array()
        .and_then(|all| all.iter().find(injected).cloned())
        .expect("an injected hook")
}

/// Calls a hook as a runtime does.
fn call(node: &Node, hook: &Value) -> Ended {
    let mut arguments = hook["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    let mut command = Command::new(hook["path"].as_str().unwrap());
    // The first argument is the name of the program.
    arguments.next();
    let state = node.path("state.json");
    fs::write(&state, r#"{"status": "created", "pid": 1}"#).unwrap();
    command.args(arguments).stdin(File::open(state).unwrap());
    node.run(command)
}

#[test]
fn a_late_hook_causes_no_second_notification() {
    let Some(go_plugin) = go_plugin("late hooks") else { return };
    for_each_runtime("late hooks", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &id]).success();
        plugin.journal.wait_for("PostStartContainer", &id);
        let [create, start] = ["createRuntime", "poststart"].map(|stage| hook(&node, &id, stage));
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
fn a_late_hook_does_not_affect_the_next_container_with_the_same_id() {
    let Some(go_plugin) = go_plugin("late hooks of a removed container") else { return };
    for_each_runtime("late hooks of a removed container", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        node.call(&["run", "--detach", "--bundle", dir, &id]).success();
        let [create, stop] = ["createRuntime", "poststop"].map(|stage| hook(&node, &id, stage));
        node.call(&["delete", "--force", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        let before = plugin.journal.events(&id).len();
        node.create(&bundle, &id).success();
        let last = || plugin.journal.events(&id).pop();
        wait_until("PostCreateContainer", || (last()? == "PostCreateContainer").then_some(()));
        call(&node, &stop).success();
        call(&node, &create).success();
        assert_eq!(node.status().unwrap()["containers"], 1);
        node.call(&["delete", "--force", &id]).success();
        wait_until("the second RemovePodSandbox", || {
            (plugin.journal.events(&id).last().map(String::as_str) == Some("RemovePodSandbox"))
                .then_some(())
        });
        let events = plugin.journal.events(&id);
        let after: Vec<_> = events[before..].iter().map(String::as_str).collect();
        let never_started: Vec<_> = [&TO_START[..4], &FROM_STOP].concat();
        assert_eq!(after, never_started);
    });
}

/// Returns the running hook process of this node.
fn hook_of(node: &Node) -> Process {
    let dir = node.state_dir().into_os_string().into_string().unwrap();
    let is_hook = |process: &Process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
        process.program().is_some_and(|program| program.ends_with("nri-oci-hook"))
            && String::from_utf8_lossy(&line).contains(&dir)
    };
    Process::all().into_iter().find(is_hook).expect("a hook that waits for the reply of nrid")
}

#[test]
fn a_hook_calls_the_next_nrid_after_the_previous_one_was_killed() {
    let Some(go_plugin) = go_plugin("hooks without nrid") else { return };
    for_each_runtime("hooks without nrid", |runtime| {
        let node = Node::new(runtime);
        let resume = node.path("resume");
        let rules = json!({"rules": [{"event": "StartContainer", "until": resume}]});
        let journal = node.launch("10-slow", &go_plugin, &rules.to_string());
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        let killed_nrid = std::thread::scope(|scope| {
            let running = scope.spawn(|| node.call(&["run", "--detach", "--bundle", dir, &id]));
            journal.wait_for("StartContainer", &id);
            let nrid = node.nrid().unwrap();
            // A hook retries for a limited time. A hook that is stopped by SIGSTOP does not retry,
            // so the test has time to start the next nrid.
            let hook = hook_of(&node);
            hook.signal(Signal::STOP);
            nrid.signal(Signal::KILL);
            wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
            fs::write(&resume, "").unwrap();
            node.ctl(&["start"]).success();
            hook.signal(Signal::CONT);
            running.join().unwrap().success();
            nrid
        });
        assert_eq!(node.state(&id).unwrap()["status"], "running");
        assert_ne!(node.nrid().unwrap(), killed_nrid);
        journal.wait_for("PostStartContainer", &id);
        // The next nrid launched the plugin again, synchronized it with the container, and sent
        // StartContainer again.
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
