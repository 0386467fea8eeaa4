//! Tests of what outlives the configuration file: the settings that calls of the wrapper follow,
//! and the last configuration that could be used.

use crate::node::{Node, Nrid};
use nri_control::{Reply, Request};
use nri_files::{CallSettings, PublishedSettings};
use rustix::process::geteuid;
use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

/// A node whose configuration names its state directory, as calls of the wrapper find it.
fn node() -> Node {
    let node = Node::new("");
    configure(&node, "");
    node
}

fn configure(node: &Node, lines: &str) {
    node.configure(&format!("state_dir = {:?}\n{lines}", node.state_dir()));
}

/// Returns what is published; `None` if nothing is.
fn published(node: &Node) -> Option<CallSettings> {
    PublishedSettings::read(&node.config())?.all()
}

#[test]
fn calls_follow_the_configuration_that_was_loaded_last() {
    if !geteuid().is_root() {
        println!("skipped: settings are published for root only");
        return;
    }
    let node = node();
    let nrid = node.start();
    let defaults = published(&node).unwrap();
    assert_eq!(defaults.state_dir, node.state_dir());
    assert_eq!(defaults.start_timeout, Duration::from_secs(20));
    let passes = || published(&node).unwrap().passes_unreachable;
    assert!(!passes());
    configure(&node, "unreachable = 'pass'\n[runtime]\npath = '/r'\n");
    assert_eq!(published(&node), Some(defaults), "only a reload reads the file");
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert!(passes());
    assert_eq!(published(&node).unwrap().runtime.path, Some("/r".into()));
    configure(&node, "unreachable = 7\n");
    assert!(matches!(node.call(&Request::Reload), Reply::Refused { .. }));
    assert!(passes(), "an invalid file changes nothing");
    // Killed, as by a crash.
    drop(nrid);
    assert!(passes(), "a crash changes nothing");
    configure(&node, "");
    let nrid = node.start();
    assert!(!passes(), "a start reads the file");
    // No call starts an nrid that would publish the end of it.
    configure(&node, "disable = true\n");
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert_eq!(published(&node), None, "while NRI is disabled, calls read the file");
    configure(&node, "");
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert!(published(&node).is_some());
    node.stop();
    nrid.wait_for_exit();
    assert_eq!(published(&node), None, "after a stop, calls read the file");
}

#[test]
fn an_nrid_that_calls_do_not_find_publishes_nothing() {
    // The configuration does not name the state directory.
    let node = Node::new("");
    let nrid = node.start();
    assert_eq!(published(&node), None);
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert_eq!(published(&node), None);
    node.stop();
    nrid.wait_for_exit();
}

/// A file that was saved with a mistake must not stop a node whose `nrid` has crashed.
#[test]
fn an_nrid_that_starts_with_an_invalid_file_uses_the_last_configuration() {
    let node = node();
    let log = |nrid: &Nrid| nrid.output();
    configure(&node, "mode = 'shadow'\n");
    let nrid = node.start();
    let digest = node.status().config_digest;
    // Killed, as by a crash.
    drop(nrid);
    configure(&node, "mode = 'dark'\n");
    let nrid = node.start();
    let status = node.status();
    assert_eq!((&*status.mode, status.config_digest), ("shadow", digest));
    let says = |text: &str| {
        text.contains("config.toml") && text.contains("dark") && text.contains("is effective")
    };
    assert!(status.problems.iter().any(|problem| says(problem)), "{:?}", status.problems);
    assert!(says(&log(&nrid)), "{}", log(&nrid));
    let Reply::Refused { message } = node.call(&Request::Reload) else { panic!() };
    assert!(message.contains("dark"), "{message}");
    configure(&node, "");
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    let status = node.status();
    assert_eq!((&*status.mode, status.problems), ("apply", vec![]));
    node.stop();
    nrid.wait_for_exit();
    // After a boot, nothing was kept.
    configure(&node, "mode = 'dark'\n");
    fs::remove_dir_all(node.state_dir()).unwrap();
    let mut nrid = Command::new(env!("CARGO_BIN_EXE_nrid"));
    nrid.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    let output = nrid.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("dark"), "{error}");
}
