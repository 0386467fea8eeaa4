//! Tests of containers that are created while a plugin is absent, and of the status of plugins that
//! end.

use crate::{
    containers::{Sleep, create_and_start, with_status},
    create::{bundle_with, create},
    node::{Node, Nrid, example, wait_until},
    restart::restart,
};
use nri_control::{MissedContainers, PluginStatus, Reply, Request, Verified};
use nri_files::MissedPlugin;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

/// A policy whose restart pause is longer than any test.
const NEVER_BACK: &str = "[[plugin]]\nmatch = '*'\nrestart_backoff = '10m'\n";

/// Adds a plugin that is a shell script.
fn script(node: &Node, name: &str, script: &str) {
    let new = node.path("new");
    fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, node.plugins().join(name)).unwrap();
}

fn plugin(node: &Node, name: &str) -> Option<PluginStatus> {
    node.status().plugins.into_iter().find(|plugin| plugin.name == name)
}

fn wait_for_state(node: &Node, name: &str, state: &str) -> PluginStatus {
    wait_until(state, || plugin(node, name).filter(|plugin| plugin.state == state))
}

fn verified(node: &Node, id: &str) -> Verified {
    match node.call(&Request::Verify { ids: vec![id.to_owned()] }) {
        Reply::Verified(mut verified) => verified.remove(0),
        other => panic!("{other:?}"),
    }
}

fn names(missed: &[MissedPlugin]) -> Vec<&str> {
    missed.iter().map(|missed| &*missed.plugin).collect()
}

/// Returns the lines of the log that contain all of the words.
fn lines(nrid: &Nrid, words: &[&str]) -> Vec<String> {
    let output = nrid.output();
    let found = output.lines().filter(|line| words.iter().all(|word| line.contains(word)));
    found.map(str::to_owned).collect()
}

fn restart_nrid(node: &Node) {
    restart(node, Some(Path::new(env!("CARGO_BIN_EXE_nrid")))).unwrap();
}

#[test]
fn a_container_that_misses_a_plugin_is_recorded_logged_and_counted() {
    let node = Node::new(NEVER_BACK);
    script(&node, "10-crashes", "echo 'cannot open /x' >&2; exit 3");
    node.plugin("20-runs");
    let nrid = node.start();
    wait_for_state(&node, "10-crashes", "restarting");
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();

    let count = MissedContainers { plugin: "10-crashes".to_owned(), containers: 1 };
    assert_eq!(node.status().missed, std::slice::from_ref(&count));
    let found = verified(&node, "c1");
    assert_eq!((names(&found.missed), &*found.pod), (vec!["10-crashes"], "c1"));
    assert!(found.missed[0].why.contains("exited with code 3"), "{found:?}");
    let words = ["WARN", "created without plugin", "container=\"c1\"", "pod=\"c1\"", "10-crashes"];
    assert_eq!(lines(&nrid, &words).len(), 1, "{}", nrid.output());

    // The next nrid knows it, too. The plugin runs then, and is synchronized with the container.
    fs::remove_file(node.plugins().join("10-crashes")).unwrap();
    node.plugin("10-crashes");
    restart_nrid(&node);
    wait_for_state(&node, "10-crashes", "active");
    assert_eq!(node.status().missed, [count]);
    assert_eq!(names(&verified(&node, "c1").missed), ["10-crashes"]);
    let second = Sleep::new();
    create_and_start(&node, "c2", &second).unwrap();
    assert!(verified(&node, "c2").missed.is_empty());
    assert_eq!(with_status(&node, "running"), ["c1", "c2"]);
    node.stop();
    nrid.wait_for_exit();
}

/// An external plugin `30-external`, killed when it is dropped.
struct External(Child);

impl External {
    fn start(node: &Node) -> Self {
        let mut command = Command::new(example("logger"));
        command.args(["--idx", "30", "--name", "external", "--socket"]);
        command.arg(node.state_dir().join("nri.sock")).stdin(Stdio::null()).stdout(Stdio::null());
        let plugin = Self(command.spawn().unwrap());
        wait_for_state(node, "30-external", "active");
        plugin
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_container_misses_an_external_plugin_that_has_left_until_it_returns() {
    let node = Node::new("");
    let nrid = node.start();
    let create = |id: &str| {
        let (reply, client) = create(&node, id, &bundle_with(&node, id, CONFIG));
        assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
        (verified(&node, id).missed, client)
    };
    let (missed, _before) = create("before");
    assert!(missed.is_empty());
    drop(External::start(&node));
    let left = wait_for_state(&node, "30-external", "closed");
    assert!(!left.failed && left.last_exit.is_some(), "{left:?}");
    let (missed, _without) = create("without");
    let why = "the plugin closed the connection".to_owned();
    assert_eq!(missed, [MissedPlugin { plugin: "30-external".to_owned(), why }]);
    let plugin = External::start(&node);
    assert_eq!(wait_for_state(&node, "30-external", "active").restarts, 1);
    let (missed, _after) = create("after");
    assert!(missed.is_empty());
    assert_eq!(names(&verified(&node, "without").missed), ["30-external"]);
    drop(plugin);
    drop(nrid);
}

#[test]
fn the_status_of_a_plugin_in_a_crash_loop_has_what_an_operator_needs() {
    let node = Node::new("[[plugin]]\nmatch = '*'\nrestart_backoff = '1ms'\n");
    script(&node, "10-crashes", "echo starting; echo 'cannot open /x' >&2; kill -11 $$");
    let nrid = node.start();
    let status = wait_until("three restarts", || {
        plugin(&node, "10-crashes").filter(|p| p.restarts >= 3 && p.state == "restarting")
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(status.next_launch.is_some_and(|next| next + 60 > now), "{status:?}");
    assert_eq!(status.last_output.as_deref(), Some("cannot open /x"));
    let exit = status.last_exit.unwrap();
    assert!(exit.contains("killed by signal 11 (SIGSEGV"), "{exit}");
    assert!(status.failed);
    for words in [
        &["WARN", "plugin ended", "plugin=\"10-crashes\"", "SIGSEGV", "cannot open /x"][..],
        &["WARN", "plugin is launched again after a pause", "restarts=2", "pause="][..],
    ] {
        assert!(!lines(&nrid, words).is_empty(), "{words:?}: {}", nrid.output());
    }
    drop(nrid);
}

#[test]
fn at_level_debug_every_event_has_a_line_with_container_pod_and_plugin() {
    let node = Node::new("[log]\nlevel = 'debug'\n");
    node.plugin("10-logger");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("20-adjust")).unwrap();
    let rules = "[create]\nenv = { set = { SECRET = 'hidden-value' } }\n";
    fs::write(node.path("conf.d/20-adjust.conf"), rules).unwrap();
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let about = "container=\"c1\" pod=\"c1\"";
    for event in ["CreateContainer", "StartContainer", "PostStartContainer"] {
        let event = format!("event=\"{event}\"");
        wait_until("the line of the event", || {
            let found = lines(&nrid, &["DEBUG", "plugin=10-logger", about, &event]);
            (!found.is_empty()).then_some(())
        });
    }
    for words in [
        &["DEBUG", "adjustment", "plugin=20-adjust", about, "fields=\"env\""][..],
        &["INFO", "container is adjusted", about, "plugins=\"20-adjust\""][..],
        &["DEBUG", "container created", about][..],
        &["DEBUG", "container started", about][..],
        &["DEBUG", "event", "plugin=10-logger", "pod=\"c1\"", "event=\"RunPodSandbox\""][..],
    ] {
        assert!(!lines(&nrid, words).is_empty(), "{words:?}: {}", nrid.output());
    }
    // The plugin `logger` prints its requests, in which the variable is.
    let own = |line: &&str| !line.contains("10-logger: ");
    assert!(!nrid.output().lines().filter(own).any(|line| line.contains("hidden-value")));
    node.stop();
    nrid.wait_for_exit();
}
