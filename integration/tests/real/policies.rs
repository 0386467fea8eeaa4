//! What a plugin's policy makes of its faults, as it is configured; and whose decision holds where
//! several creations are in progress.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Many times any timeout here, and less than what is waited for where there is none.
const BOUND: Duration = Duration::from_secs(30);

fn create(node: &Node, name: &str) -> Ended {
    let id = node.id(name);
    let begin = Instant::now();
    let ended = node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id);
    assert!(begin.elapsed() < BOUND, "{name}: {:?}", begin.elapsed());
    ended
}

fn pids(node: &Node, id: &str) -> String {
    node.cgroup_file(id, "pids", "pids.max", "pids.max")
}

fn update(id: &str, limit: u64) -> Value {
    json!({"containerId": id, "linux": {"resources": {"pids": {"limit": limit}}}})
}

/// A launched plugin, stopped in its tracks, under this policy.
fn stopped(runtime: &Runtime, go: &Program, on_failure: &str) -> Node {
    let node = Node::new(runtime);
    node.configure(&format!(
        "plugin = [{{ match = 'bad', on_failure = '{on_failure}', timeout = '2s', \
            consecutive_timeouts = 2, restart_backoff = '100ms' }}]\n"
    ));
    node.launch("10-bad", go, &json!({"events": ["CreateContainer"]}).to_string());
    create(&node, "before").success();
    let pid = node.status().unwrap()["plugins"][0]["pid"].as_u64().unwrap();
    Process(u32::try_from(pid).unwrap()).signal(Signal::STOP);
    node
}

/// It was given up after two timeouts, and launched again.
fn check_restarted(node: &Node) {
    let active = || node.log().matches("plugin=\"10-bad\" state=Active").count();
    wait_until("the plugin to be back", || (active() == 2).then_some(()));
    create(node, "after").success();
}

#[test]
fn on_failure_fail_refuses_until_the_plugin_is_back() {
    let Some(go) = go("on_failure = fail") else { return };
    for_each_runtime("on_failure = fail", |runtime| {
        let node = stopped(runtime, &go, "fail");
        for name in ["first", "second"] {
            let line = create(&node, name).refusal();
            for word in ["10-bad", "CREATE_CONTAINER", "no reply within 2s", &node.id(name)] {
                assert!(line.contains(word), "{word:?} in {line}");
            }
            assert!(node.state(&node.id(name)).is_none());
        }
        check_restarted(&node);
    });
}

#[test]
fn on_failure_ignore_goes_on_without_the_plugin() {
    let Some(go) = go("on_failure = ignore") else { return };
    for_each_runtime("on_failure = ignore", |runtime| {
        let node = stopped(runtime, &go, "ignore");
        for name in ["first", "second"] {
            create(&node, name).success();
        }
        check_restarted(&node);
    });
}

#[test]
fn only_creations_wait_for_a_required_plugin_that_ended() {
    let Some(go) = go("required") else { return };
    for_each_runtime("required", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = '10-guard', required = true }]\n");
        node.ctl(&["start"]).success();
        let missing = |name: &str| {
            let line = create(&node, name).refusal();
            for word in ["10-guard", "required", &node.id(name)] {
                assert!(line.contains(word), "{word:?} in {line}");
            }
        };
        missing("before");
        let plugin = node.connect("10-guard", &go, "{}");
        let id = node.id("c");
        create(&node, "c").success();
        plugin.stop();
        wait_until("its end", || {
            let status = node.status()?;
            (!status["plugins"].as_array()?.iter().any(|p| p["state"] == "active")).then_some(())
        });
        missing("without");
        for call in [&["start", &id][..], &["update", "--pids-limit", "40", &id], &["state", &id]] {
            node.call(call).success();
        }
        node.call(&["kill", &id, "KILL"]).success();
        node.call(&["delete", "--force", &id]).success();
        let _back = node.connect("10-guard", &go, "{}");
        create(&node, "again").success();
    });
}

/// The runtime, but the creation of a container with this id waits for a file.
fn held(node: &Node, runtime: &Runtime, id: &str) -> Runtime {
    let path = node.path("held");
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' create '*' {id} '*) : > '{working}'; while [ ! -e '{go}' \
            ]; do sleep 0.02; done ;; esac\nexec '{real}' \"$@\"\n",
        working = node.path("working").display(),
        go = node.path("go").display(),
        real = runtime.path.display()
    );
    write_program(&path, &text);
    Runtime { name: runtime.name, path }
}

#[test]
fn the_later_decision_is_effective_whichever_creation_ends_first() {
    let Some(go) = go("the later decision") else { return };
    for_each_runtime("the later decision", |runtime| {
        let node = Node::new(runtime);
        let [target, first, second, third] =
            ["target", "first", "second", "third"].map(|name| node.id(name));
        node.ctl(&["start"]).success();
        let rules = [(&first, 41), (&second, 42), (&third, 43)]
            .map(|(id, limit)| json!({"id": id, "updates": [update(&target, limit)]}));
        let decides = node.connect("10-decides", &go, &json!({"rules": rules}).to_string());
        // Between the decision and its coming into force.
        let go_on = node.path("decided");
        let slow = json!({"rules": [{"id": second, "until": go_on}]});
        let slow = node.connect("20-slow", &go, &slow.to_string());
        let resources = r#"{"pids": {"limit": 50}}"#;
        node.create(&node.bundle(&target).resources(resources).make(), &target).success();
        let real = held(&node, runtime, &first);
        let create = |id: &str| {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            let mut command = node.wrapper_of(&real);
            command.args(["create", "--bundle"]).arg(bundle.dir()).arg(id);
            node.run(command).success();
        };
        thread::scope(|scope| {
            let held = scope.spawn(|| create(&first));
            wait_until("the runtime of the first", || node.path("working").exists().then_some(()));
            assert_eq!(pids(&node, &target), "41");
            let slowly = scope.spawn(|| create(&second));
            slow.journal.wait_for("CreateContainer", &second);
            // It enters while the second has been decided on, and is not effective.
            let entering = scope.spawn(|| create(&third));
            decides.journal.wait_for("RunPodSandbox", &third);
            fs::write(&go_on, "").unwrap();
            entering.join().unwrap();
            slowly.join().unwrap();
            assert_eq!(pids(&node, &target), "43", "the last to be decided on");
            assert!(node.state(&first).is_none(), "it was overtaken");
            fs::write(node.path("go"), "").unwrap();
            held.join().unwrap();
        });
        assert_eq!(pids(&node, &target), "43");
        node.ctl(&["verify", &target]).success();
        let order = |journal: &Journal| -> Vec<Value> {
            let entries = journal.entries().into_iter();
            let requested = entries.filter(|e| e["event"] == "CreateContainer");
            requested.map(|e| e["container_id"].clone()).collect()
        };
        assert_eq!(order(&decides.journal), [&target, &first, &second, &third].map(|id| json!(id)));
        assert_eq!(order(&slow.journal), order(&decides.journal), "one order at every plugin");
    });
}

#[test]
fn a_plugin_can_request_updates_from_inside_its_handlers() {
    let Some(go) = go("updates from inside") else { return };
    for_each_runtime("updates from inside", |runtime| {
        let node = Node::new(runtime);
        let (target, id) = (node.id("target"), node.id("c"));
        node.ctl(&["start"]).success();
        // At every event, the longest of which hold the container's lane, and its own container
        // among them.
        let rule = |(n, event): (usize, &&str)| {
            let limit = 100 + n as u64;
            json!({"event": event, "unsolicited": [update(&target, limit), update(&id, limit)]})
        };
        let rules: Vec<_> = View::EVENTS.iter().enumerate().map(rule).collect();
        let resources = r#"{"pids": {"limit": 50}}"#;
        node.create(&node.bundle(&target).resources(resources).make(), &target).success();
        let plugin = node.connect("10-asks", &go, &json!({"rules": rules}).to_string());
        let begin = Instant::now();
        create(&node, "c").success();
        for call in [
            &["start", &id][..],
            &["update", "--cpu-shares", "300", &id],
            &["delete", "--force", &id],
        ] {
            node.call(call).success();
        }
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
        wait_until("the last of its updates", || (pids(&node, &target) == "110").then_some(()));
        node.call(&["delete", "--force", &target]).success();
    });
}
