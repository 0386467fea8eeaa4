//! Tests of an `nrid` that is killed, or stopped by a signal: what the next one, `nrictl status`
//! and `nrictl doctor` say.

use crate::{
    containers::{Sleep, create_and_start},
    doctor::{findings, nrictl},
    node::{Node, Nrid, wait_until},
    restart::restart,
};
use nri_files::{AuditEvent, AuditLine};
use rustix::process::Signal;
use std::fs;

/// Kills `nrid`, and waits until it has ended. Returns its process id.
fn kill(nrid: Nrid) -> u32 {
    let pid = nrid.id();
    drop(nrid);
    pid
}

/// Returns the messages of the audit log about ends of `nrid`.
fn audited(node: &Node) -> Vec<String> {
    let log = fs::read_to_string(node.state_dir().join("audit.log")).unwrap_or_default();
    let lines = log.lines().map(|line| serde_json::from_str::<AuditLine>(line).unwrap());
    let lines = lines.filter(|line| line.event == AuditEvent::NridEnded);
    lines.map(|line| line.message).collect()
}

fn text(node: &Node, command: &str) -> String {
    String::from_utf8(nrictl(node, &[command]).stdout).unwrap()
}

#[test]
fn an_nrid_that_was_killed_is_reported_until_a_clean_stop() {
    let node = Node::new("");
    let pid = kill(node.start());
    let ended = format!("nrid (process {pid}) ended without a clean stop ");
    let found = findings(&node, "nrid-ended");
    assert!(found[0].starts_with(&format!("warning {ended}after 2")), "{found:?}");
    assert!(text(&node, "status").contains(&ended));

    let nrid = node.start();
    let output = nrid.output();
    let line = output.lines().find(|line| line.contains("ended without a clean stop")).unwrap();
    assert!(line.contains("ERROR") && line.contains(&format!("pid={pid} ")), "{line}");
    let messages = wait_until("the line of the audit log", || {
        Some(audited(&node)).filter(|messages| !messages.is_empty())
    });
    assert!(messages[0].starts_with(&format!("{ended}between 2")), "{messages:?}");
    assert!(messages[0].ends_with("Z: the signal is not known"), "{messages:?}");
    let found = findings(&node, "nrid-ended");
    assert!(found[0].starts_with(&format!("warning {ended}between 2")), "{found:?}");
    assert!(text(&node, "status").contains(&ended));

    // A restart in the same process is neither such an end nor a clean stop.
    restart(&node, None).unwrap();
    assert_eq!(node.status().unclean_end.unwrap().pid, pid);
    assert_eq!(audited(&node).len(), 1);

    node.stop();
    nrid.wait_for_exit();
    let _next = node.start();
    assert_eq!(node.status().unclean_end, None);
    assert_eq!(findings(&node, "nrid-ended"), [""; 0]);
    assert_eq!(audited(&node).len(), 1);
}

/// The file of an `nrid` that is stopped cleanly, or whose state directory was taken over, is gone.
#[test]
fn an_nrid_writes_the_file_of_its_life_again_if_it_was_removed() {
    let node = Node::new("");
    let nrid = node.start();
    let file = nri_files::NridLife::path(&node.state_dir());
    fs::remove_file(&file).unwrap();
    wait_until("the file", || file.exists().then_some(()));
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    wait_until("a sign of life", || {
        (fs::metadata(&file).unwrap().modified().unwrap() > before).then_some(())
    });
    nrid.signal(Signal::TERM);
    nrid.wait_for_exit();
    assert!(!file.exists());
}

#[test]
fn an_nrid_that_does_not_run_is_a_problem_while_its_containers_do() {
    let node = Node::new("");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    kill(nrid);
    let found = findings(&node, "nrid-missing");
    assert!(found[0].starts_with("problem it is not running "), "{found:?}");
    assert!(found[0].ends_with(", and a container of it runs"), "{found:?}");
    assert_eq!(nrictl(&node, &["doctor"]).status.code(), Some(4));
    drop(process);
    assert_eq!(findings(&node, "nrid-missing"), [""; 0]);
    assert_eq!(findings(&node, "nrid-not-running").len(), 1);
}

#[test]
fn an_nrid_that_is_stopped_by_a_signal_is_said_to_be() {
    let node = Node::new("");
    let nrid = node.start();
    let pid = nrid.id();
    nrid.signal(Signal::STOP);
    let found = findings(&node, "nrid-unresponsive");
    let expected = format!("problem process {pid} (nrid) does not reply: it is stopped (SIGSTOP");
    assert!(found[0].starts_with(&expected), "{found:?}");
    let of_others = findings(&node, "socket-of-other");
    assert!(!of_others.iter().any(|text| text.contains(&pid.to_string())), "{of_others:?}");
    assert!(text(&node, "doctor").contains(&format!("`kill -CONT {pid}`")));
    nrid.signal(Signal::CONT);
    node.stop();
}
