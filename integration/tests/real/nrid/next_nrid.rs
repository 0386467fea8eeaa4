//! Tests that the next `nrid` completes requests during which the previous `nrid` was killed.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;
use std::{fs, thread};

/// Calls a verb that pauses in the runtime. During the pause `nrid` is killed, the next `nrid` is
/// started, and `meanwhile` runs.
fn call_across_nrids(
    node: &Node,
    paused: &PausedRuntime,
    arguments: &[&str],
    meanwhile: impl FnOnce(),
) {
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut command = node.wrapper_of(&paused.runtime);
            command.args(arguments);
            node.run(command)
        });
        paused.wait_for_pause();
        node.kill_nrid();
        node.ctl(&["start"]).success();
        meanwhile();
        paused.resume();
        caller.join().unwrap().success();
    });
}

#[test]
fn a_creation_survives_a_kill_of_nrid() {
    for_each_runtime("next nrid, creation", |runtime| {
        let node = Node::new(runtime);
        let paused = PausedRuntime::new(&node);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let original = bundle.bytes();
        let call = ["create", "--bundle", bundle.dir().to_str().unwrap(), &id];
        call_across_nrids(&node, &paused, &call, || {
            assert_eq!(node.adjusted(&id)["process"]["env"][2], "A=b");
        });
        node.call(&["start", &id]).success();
        node.call(&["delete", "--force", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        let events = journal.events(&id);
        let requested = events.iter().filter(|e| *e == "CreateContainer").count();
        assert_eq!(requested, 1, "{events:?}");
        let after: Vec<_> =
            events.iter().skip_while(|e| *e != "PostCreateContainer").map(String::as_str).collect();
        assert_eq!(after, &WITHOUT_VALIDATION[2..]);
        assert_eq!(bundle.bytes(), original, "the engine's config.json was changed");
        wait_until("the removal of the bundle", || node.own_bundle(&id).is_none().then_some(()));
    });
}

#[test]
fn a_creation_is_rolled_back_when_nrid_and_wrapper_are_killed() {
    for_each_runtime("next nrid, wrapper killed", |runtime| {
        let node = Node::new(runtime);
        let paused = PausedRuntime::new(&node);
        node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let mut command = node.wrapper_of(&paused.runtime);
        command.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
        let mut wrapper = command.spawn().unwrap();
        paused.wait_for_pause();
        let nrid = node.nrid().unwrap();
        for process in [nrid, Process(wrapper.id())] {
            process.signal(Signal::KILL);
        }
        wrapper.wait().unwrap();
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        node.ctl(&["start"]).success();
        wait_until("the removal of the bundle", || node.own_bundle(&id).is_none().then_some(()));
        wait_until("the record to be removed", || {
            (node.status()?["containers"] == 0).then_some(())
        });
    });
}

#[test]
fn an_update_survives_a_kill_of_nrid() {
    for_each_runtime("next nrid, update", |runtime| {
        let node = Node::new(runtime);
        let paused = PausedRuntime::new(&node);
        // If a plugin has set a value, nrid adds all effective values to each update of the
        // runtime.
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\nshares = 300\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).resources(r#"{"memory": {"limit": 67108864}}"#);
        let bundle = bundle.arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        call_across_nrids(&node, &paused, &["update", "--memory", "100663296", &id], || ());
        node.call(&["update", "--pids-limit", "40", &id]).success();
        let limit = node.cgroup_file(&id, "memory", "memory.limit_in_bytes", "memory.max");
        assert_eq!(limit.trim(), "100663296", "the update was undone");
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max").trim(), "40");
        node.ctl(&["verify", &id]).success();
        node.call(&["delete", "--force", &id]).success();
    });
}

/// `nrid` writes the cgroup files that the runtime's `update` does not write, such as
/// `memory.swappiness`. If `nrid` is killed before it has written them, the next `nrid` does.
#[test]
fn an_update_that_only_nrid_writes_survives_a_kill_of_nrid() {
    let Some(go_plugin) = go_plugin("next nrid, swappiness") else { return };
    if is_cgroup_v2() {
        return limitation("next nrid, swappiness", "cgroup v2 has no swappiness");
    }
    for_each_runtime("next nrid, swappiness", |runtime| {
        let node = Node::new(runtime);
        let paused = PausedRuntime::new(&node);
        let id = node.id("c");
        let swappiness = json!({"resources": {"memory": {"swappiness": {"value": 5}}}});
        let update = json!({"containerId": id, "linux": swappiness});
        let rule = json!({"event": "UpdateContainer", "updates": [update]});
        let journal = node.launch("10-sets", &go_plugin, &json!({"rules": [rule]}).to_string());
        let bundle = node.bundle(&id).resources(r#"{"memory": {"limit": 67108864}}"#);
        let bundle = bundle.arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        call_across_nrids(&node, &paused, &["update", "--memory", "100663296", &id], || ());
        journal.wait_for("PostUpdateContainer", &id);
        let file = |name: &str| node.cgroup_file(&id, "memory", name, name).trim().to_owned();
        assert_eq!(file("memory.swappiness"), "5");
        // nrid adds all effective values to this update of the runtime.
        node.call(&["update", "--pids-limit", "40", &id]).success();
        assert_eq!(file("memory.limit_in_bytes"), "100663296", "the update was undone");
        node.ctl(&["verify", &id]).success();
        node.call(&["delete", "--force", &id]).success();
    });
}

/// The runtime sets another value than the plugin requested, and `nrid` is killed before the
/// runtime exits. The next `nrid` must correct the value at `start`.
#[test]
fn a_creation_that_spans_two_nrids_is_enforced() {
    for_each_runtime("next nrid, enforcement", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        // Path of the cgroup file in the mount namespace of the runtime.
        let file =
            node.cgroup_dir(&id, "pids").join("pids.max").into_os_string().into_string().unwrap();
        let file = &file[file.find("/sys/fs/cgroup").unwrap()..];
        let set = node.path("set");
        let cases = format!(
            r#"create)
      "$real" "$@"; code=$?
      echo 55 > '{file}'; cat '{file}' > '{}'; pause
      exit $code ;;"#,
            set.display()
        );
        let paused = PausedRuntime::with_cases(&node, &cases);
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let call = ["create", "--bundle", bundle.dir().to_str().unwrap(), &id];
        call_across_nrids(&node, &paused, &call, || ());
        assert_eq!(
            fs::read_to_string(set).unwrap().trim(),
            "55",
            "the script has not changed the limit"
        );
        node.call(&["start", &id]).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max").trim(), "77");
        node.call(&["delete", "--force", &id]).success();
    });
}
