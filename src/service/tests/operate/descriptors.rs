//! Tests of `nrid` with a limit of open files that is lower than the number of containers.

use crate::{
    containers::{Sleep, begin, create_and_start, perform, wait_for_status, with_status},
    node::{Node, wait_until},
};
use nri_control::{Client, Reply, Request, Verb};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

/// Returns the number of events of this kind that the plugin has received.
pub(crate) fn event_count(node: &Node, event: &str) -> usize {
    let output = fs::read_to_string(node.path("output")).unwrap();
    output.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
}

/// Restarts `nrid` with the same program.
pub(crate) fn restart(node: &Node) {
    let client = Client::connect(&node.socket()).unwrap();
    client.set_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(client.call(&Request::Restart { program: None }, &[]).unwrap(), Reply::Done);
    assert!(client.wait_closed());
}

#[test]
fn containers_beyond_the_limit_of_open_files_are_not_taken_for_stopped() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start();
    let mut processes: Vec<_> = (0..150).map(|_| Sleep::new()).collect();
    for (n, process) in processes.iter().enumerate() {
        create_and_start(&node, &format!("c{n}"), process).unwrap();
    }
    node.stop();
    nrid.wait_for_exit();

    let nrid = node.start_limited("-n 120");
    let status = node.status();
    assert_eq!(status.containers, 150);
    let problem = |part: &str| status.problems.iter().any(|problem| problem.contains(part));
    assert!(problem("120 open files"), "{:?}", status.problems);
    let (reply, _) = begin(&node, Verb::Create, "one-more", "/bin/false");
    let Reply::Refused { message } = reply else { panic!("{reply:?}") };
    // A quarter of the 120 descriptors is reserved, and an eighth of the other 90 is for watches of
    // OOM kills: 79 remain for containers.
    for part in ["120 open files", "79 containers", "LimitNOFILE"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // nrid notices the end of a process that it watches, and of one that it cannot watch, and takes
    // no other container for stopped.
    for n in [149, 75, 0] {
        drop(processes.remove(n));
    }
    wait_for_status(&node, "stopped", &["c0", "c149", "c75"]);
    wait_until("the plugin's events", || (event_count(&node, "StopContainer") == 3).then_some(()));
    restart(&node);
    assert_eq!(node.status().containers, 150);
    assert_eq!(with_status(&node, "running").len(), 147);
    node.stop();
    drop(nrid);
}

#[test]
fn the_soft_limit_of_open_files_is_raised_for_nrid_alone() {
    let node = Node::new("");
    // A plugin and a runtime that record their soft limit in a file.
    let script = |path: std::path::PathBuf, output: &str| {
        let output = node.path(output);
        fs::write(&path, format!("#!/bin/sh\nulimit -Sn >>{}\n", output.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    script(node.plugins().join("10-limits"), "plugin-limit");
    let runtime = script(node.path("runtime"), "runtime-limit");
    let nrid = node.start_limited("-n 300 && ulimit -Sn 64");
    // More containers than the soft limit allows, and fewer than the hard limit allows.
    let processes: Vec<_> = (0..100).map(|_| Sleep::new()).collect();
    for (n, process) in processes.iter().enumerate() {
        create_and_start(&node, &format!("c{n}"), process).unwrap();
    }
    let limits = || {
        let text = fs::read_to_string(format!("/proc/{}/limits", nrid.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        line.split_whitespace().skip(3).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(limits(), ["300", "300"]);
    restart(&node);
    assert_eq!(node.status().containers, 100);
    assert_eq!(limits(), ["300", "300"]);
    // Without a pid, nrid asks the runtime.
    perform(&node, Verb::Create, "no-pid", &runtime, None).unwrap();
    let recorded = |name: &str| fs::read_to_string(node.path(name)).unwrap_or_default();
    wait_until("the runtime's limit", || (recorded("runtime-limit") == "64\n").then_some(()));
    // nrid launched the plugin at the start and after the restart.
    let by_plugin = recorded("plugin-limit");
    assert!(by_plugin.starts_with("64\n64\n"), "{by_plugin}");
    let problems = node.status().problems;
    assert!(
        !problems.iter().any(|p| p.contains("exits")),
        "nrid cannot watch all exits: {problems:?}"
    );
    assert_eq!(with_status(&node, "stopped"), [""; 0]);
    node.stop();
    nrid.wait_for_exit();
}
