//! Tests of policies of plugins (`on_failure`, `timeout`, `required`) when a plugin hangs or is
//! missing, and updates of one container by several creations at once.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Time limit of a call: many times each timeout that these tests configure, and less than the
/// deadline of `wait_until`.
const CALL_LIMIT: Duration = Duration::from_secs(30);

fn create(node: &Node, name: &str) -> Ended {
    let id = node.id(name);
    let begin = Instant::now();
    let ended = node.create(&node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make(), &id);
    assert!(begin.elapsed() < CALL_LIMIT, "create of {name} took {:?}", begin.elapsed());
    ended
}

/// Reads the pids limit of a container.
fn pids(node: &Node, id: &str) -> String {
    node.cgroup_file(id, "pids", "pids.max", "pids.max")
}

/// Returns a plugin's update of the pids limit.
fn update(id: &str, limit: u64) -> Value {
    json!({"containerId": id, "linux": {"resources": {"pids": {"limit": limit}}}})
}

/// Returns a node with a launched plugin that has this policy and is stopped by SIGSTOP.
fn node_with_stopped_plugin(runtime: &Runtime, go_plugin: &Program, on_failure: &str) -> Node {
    let node = Node::new(runtime);
    node.configure(&format!(
        "plugin = [{{ match = 'bad', on_failure = '{on_failure}', timeout = '2s', \
            consecutive_timeouts = 2, restart_backoff = '100ms' }}]\n"
    ));
    node.launch("10-bad", go_plugin, &json!({"events": ["CreateContainer"]}).to_string());
    create(&node, "before").success();
    let pid = node.status().unwrap()["plugins"][0]["pid"].as_u64().unwrap();
    Process(u32::try_from(pid).unwrap()).signal(Signal::STOP);
    node
}

/// Checks that the plugin was disconnected after two timeouts and launched again.
fn check_restarted(node: &Node) {
    let active = || node.log().matches("plugin=\"10-bad\" state=Active").count();
    wait_until("the plugin to be active again", || (active() == 2).then_some(()));
    create(node, "after").success();
}

#[test]
fn on_failure_fail_refuses_creations_until_the_plugin_is_restarted() {
    let Some(go_plugin) = go_plugin("on_failure = fail") else { return };
    for_each_runtime("on_failure = fail", |runtime| {
        let node = node_with_stopped_plugin(runtime, &go_plugin, "fail");
        for name in ["first", "second"] {
            let line = create(&node, name).refusal();
            for word in ["10-bad", "CREATE_CONTAINER", "no reply within 2s", &node.id(name)] {
                assert!(line.contains(word), "{word:?} is not in: {line}");
            }
            assert!(node.state(&node.id(name)).is_none());
        }
        check_restarted(&node);
    });
}

#[test]
fn on_failure_ignore_creates_containers_without_the_plugin() {
    let Some(go_plugin) = go_plugin("on_failure = ignore") else { return };
    for_each_runtime("on_failure = ignore", |runtime| {
        let node = node_with_stopped_plugin(runtime, &go_plugin, "ignore");
        for name in ["first", "second"] {
            create(&node, name).success();
        }
        check_restarted(&node);
    });
}

/// Upstream's `stub.WithFailurePolicy`: without a word of the administrator, a request without a
/// reply fails, and the plugin stays connected.
#[test]
fn a_go_plugin_requests_its_failure_policy() {
    let Some(go_plugin) = go_plugin("requested failure policy") else { return };
    for_each_runtime("requested failure policy", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = 'bad', timeout = '1s' }]\n");
        node.ctl(&["start"]).success();
        let policy = json!({"failRequest": true, "keepConnected": true});
        let program = node.path("requesting");
        let text = format!(
            "#!/bin/sh\nexec '{}' --failure-policy '{policy}' \"$@\"\n",
            go_plugin.path().display()
        );
        write_program(&program, &text);
        let rules = json!({"rules": [{"id": node.id("slow"), "sleep": 2}]});
        let mut plugin = node.connect("10-bad", &Program::Go(program), &rules.to_string());
        let line = create(&node, "slow").refusal();
        for word in ["10-bad", "CREATE_CONTAINER", "no reply within 1s", "fail_request"] {
            assert!(line.contains(word), "{word:?} is not in: {line}");
        }
        create(&node, "next").success();
        plugin.journal.wait_for("CreateContainer", &node.id("next"));
        assert!(plugin.journal.entries().iter().all(|e| e["event"] != "Closed"));
        assert!(plugin.is_running());
        let shown = node.ctl(&["plugins", "--json"]).success().out();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let expected = json!({
            "on_failure": "fail", "validation_failure": "fail", "consecutive_timeouts": 0,
            "requested": {"fail_request": true, "keep_connected": true},
        });
        assert_eq!(shown["plugins"][0]["failure_policy"], expected, "{shown}");
        let wide = node.ctl(&["plugins", "-o", "wide"]).success().out();
        assert!(wide.contains("fail, keep"), "{wide}");
    });
}

/// Creations wait as long as for a reply to a request, `nrictl status` says how far the plugin is,
/// and a second synchronization has the containers that missed it.
#[test]
fn a_plugin_may_be_slow_to_synchronize() {
    let Some(go_plugin) = go_plugin("slow synchronization") else { return };
    for_each_runtime("slow synchronization", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin_request_timeout = '1s'\nplugin_synchronization_timeout = '10m'\n");
        let resume = node.path("resume");
        let rules = json!({"rules": [{"event": "Synchronize", "until": resume}]});
        let journal = node.launch("10-slow", &go_plugin, &rules.to_string());
        node.ctl(&["start"]).success();
        create(&node, "first").success();
        create(&node, "second").success();
        let status = node.ctl(&["status"]).success().out();
        let line = status.lines().find(|line| line.starts_with("10-slow: synchronizing for "));
        let line = line.unwrap_or_else(|| panic!("{status}"));
        assert!(line.ends_with(", 0 of 0 containers sent"), "{line}");
        let plugin = node.status().unwrap()["plugins"][0].clone();
        assert_eq!(plugin["state"], "synchronizing");
        assert!(plugin["synchronization"]["since"].as_u64().is_some(), "{plugin}");
        fs::write(resume, "").unwrap();
        wait_until("the plugin to be active", || {
            (node.status()?["plugins"][0]["state"] == "active").then_some(())
        });
        let entries = journal.entries().into_iter();
        let last = entries.rev().find(|e| e["event"] == "Synchronize").unwrap();
        let ids: Vec<_> = last["containers"].as_array().unwrap().iter().collect();
        assert_eq!(ids.len(), 2, "{last}");
        assert!(ids.contains(&&json!(node.id("first"))), "{last}");
        create(&node, "third").success();
        journal.wait_for("CreateContainer", &node.id("third"));
    });
}

#[test]
fn a_missing_required_plugin_refuses_creations_and_no_other_verb() {
    let Some(go_plugin) = go_plugin("required") else { return };
    for_each_runtime("required", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = '10-guard', required = true }]\n");
        node.ctl(&["start"]).success();
        let check_refused = |name: &str| {
            let line = create(&node, name).refusal();
            for word in ["10-guard", "required", &node.id(name)] {
                assert!(line.contains(word), "{word:?} is not in: {line}");
            }
        };
        check_refused("before");
        let plugin = node.connect("10-guard", &go_plugin, "{}");
        let id = node.id("c");
        create(&node, "c").success();
        plugin.stop();
        wait_until("nrid to disconnect the plugin", || {
            let status = node.status()?;
            (!status["plugins"].as_array()?.iter().any(|p| p["state"] == "active")).then_some(())
        });
        check_refused("without");
        for call in [&["start", &id][..], &["update", "--pids-limit", "40", &id], &["state", &id]] {
            node.call(call).success();
        }
        node.call(&["kill", &id, "KILL"]).success();
        node.call(&["delete", "--force", &id]).success();
        let _plugin = node.connect("10-guard", &go_plugin, "{}");
        create(&node, "again").success();
    });
}

#[test]
fn a_missing_required_plugin_refuses_updates_of_what_it_has_set() {
    let Some(go_plugin) = go_plugin("updates without a required plugin") else { return };
    for_each_runtime("updates without a required plugin", |runtime| {
        let node = Node::new(runtime);
        node.configure("plugin = [{ match = '10-guard', required = true }]\n");
        node.ctl(&["start"]).success();
        let id = node.id("c");
        let adjust = json!({"linux": {"resources": {"pids": {"limit": 77}}}});
        let rules = json!({"rules": [{"id": id, "adjust": adjust}]}).to_string();
        let plugin = node.connect("10-guard", &go_plugin, &rules);
        create(&node, "c").success();
        plugin.stop();
        wait_until("nrid to disconnect the plugin", || {
            let status = node.status()?;
            (!status["plugins"].as_array()?.iter().any(|p| p["state"] == "active")).then_some(())
        });
        let line = node.call(&["update", "--pids-limit", "40", &id]).refusal();
        for word in ["10-guard", "required", "pids.limit", &id] {
            assert!(line.contains(word), "{word:?} is not in: {line}");
        }
        assert_eq!(pids(&node, &id), "77");
        node.call(&["update", "--cpu-period", "50000", "--cpu-quota", "40000", &id]).success();
        let _plugin = node.connect("10-guard", &go_plugin, "{}");
        wait_until("the plugin to be active", || {
            let status = node.status()?;
            status["plugins"].as_array()?.iter().any(|p| p["state"] == "active").then_some(())
        });
        node.call(&["update", "--pids-limit", "40", &id]).success();
        assert_eq!(pids(&node, &id), "40");
    });
}

/// Returns a runtime that delays `create` of this container until the file `release` exists. The
/// runtime creates the file `working` before it waits.
fn delaying_runtime(node: &Node, runtime: &Runtime, id: &str) -> Runtime {
    let path = node.path("delaying_runtime");
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' create '*' {id} '*) : > '{working}'; while \
            [ ! -e '{release}' ]; do sleep 0.02; done ;; esac\nexec '{real}' \"$@\"\n",
        working = node.path("working").display(),
        release = node.path("release").display(),
        real = runtime.path.display()
    );
    write_program(&path, &text);
    Runtime { name: runtime.name, path }
}

#[test]
fn the_update_of_the_later_creation_is_effective_whichever_creation_ends_first() {
    let Some(go_plugin) = go_plugin("updates by several creations") else { return };
    for_each_runtime("updates by several creations", |runtime| {
        let node = Node::new(runtime);
        let [target, first, second, third] =
            ["target", "first", "second", "third"].map(|name| node.id(name));
        node.ctl(&["start"]).success();
        let rules = [(&first, 41), (&second, 42), (&third, 43)]
            .map(|(id, limit)| json!({"id": id, "updates": [update(&target, limit)]}));
        let updating = node.connect("10-update", &go_plugin, &json!({"rules": rules}).to_string());
        // 20-slow delays the second creation at a time when 10-update has already replied, but its
        // update is not yet applied.
        let resume = node.path("resume");
        let slow_rules = json!({"rules": [{"id": second, "until": resume}]});
        let slow = node.connect("20-slow", &go_plugin, &slow_rules.to_string());
        let resources = r#"{"pids": {"limit": 50}}"#;
        node.create(&node.bundle(&target).resources(resources).make(), &target).success();
        let delaying = delaying_runtime(&node, runtime, &first);
        let create = |id: &str| {
            let bundle = node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
            let mut command = node.wrapper_of(&delaying);
            command.args(["create", "--bundle"]).arg(bundle.dir()).arg(id);
            node.run(command).success();
        };
        thread::scope(|scope| {
            let first_creation = scope.spawn(|| create(&first));
            wait_until("the runtime of the first creation", || {
                node.path("working").exists().then_some(())
            });
            assert_eq!(pids(&node, &target), "41");
            let second_creation = scope.spawn(|| create(&second));
            slow.journal.wait_for("CreateContainer", &second);
            // The third creation starts while the second creation's update is not yet applied.
            let third_creation = scope.spawn(|| create(&third));
            updating.journal.wait_for("RunPodSandbox", &third);
            fs::write(&resume, "").unwrap();
            third_creation.join().unwrap();
            second_creation.join().unwrap();
            assert_eq!(
                pids(&node, &target),
                "43",
                "the update of the third creation is not effective"
            );
            assert!(node.state(&first).is_none(), "the first creation ended before the others");
            fs::write(node.path("release"), "").unwrap();
            first_creation.join().unwrap();
        });
        assert_eq!(pids(&node, &target), "43");
        node.ctl(&["verify", &target]).success();
        let order = |journal: &Journal| -> Vec<Value> {
            let entries = journal.entries().into_iter();
            let requested = entries.filter(|e| e["event"] == "CreateContainer");
            requested.map(|e| e["container_id"].clone()).collect()
        };
        assert_eq!(
            order(&updating.journal),
            [&target, &first, &second, &third].map(|id| json!(id))
        );
        assert_eq!(
            order(&slow.journal),
            order(&updating.journal),
            "the plugins received the creations in different orders"
        );
    });
}

#[test]
fn a_plugin_can_request_updates_from_inside_its_handlers() {
    let Some(go_plugin) = go_plugin("updates from inside") else { return };
    for_each_runtime("updates from inside", |runtime| {
        let node = Node::new(runtime);
        let (target, id) = (node.id("target"), node.id("c"));
        node.ctl(&["start"]).success();
        // In each handler the plugin requests updates of another container and of the container of
        // the event, although nrid holds the container lock during some of the events.
        let rule = |(n, event): (usize, &&str)| {
            let limit = 100 + n as u64;
            json!({"event": event, "unsolicited": [update(&target, limit), update(&id, limit)]})
        };
        let rules: Vec<_> = View::EVENTS.iter().enumerate().map(rule).collect();
        let resources = r#"{"pids": {"limit": 50}}"#;
        node.create(&node.bundle(&target).resources(resources).make(), &target).success();
        let plugin = node.connect("10-updates", &go_plugin, &json!({"rules": rules}).to_string());
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
        assert!(begin.elapsed() < CALL_LIMIT, "the calls took {:?}", begin.elapsed());
        // The limit that the plugin requests at RemovePodSandbox, the last of 11 events.
        wait_until("the last update", || (pids(&node, &target) == "110").then_some(()));
        node.call(&["delete", "--force", &target]).success();
    });
}
