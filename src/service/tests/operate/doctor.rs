//! Tests of `nrictl doctor`, `status` and `reload` with a real `nrid`: they agree with each other
//! and with what happens to containers. The tests of `nrictl` have the other findings.

use crate::{
    create::{bundle_with, create},
    node::{Node, Nrid, example, wait_until},
    views::audit::plugin,
};
use nri_control::Reply;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

/// Calls `nrictl`, which cargo puts beside `nrid`.
pub(crate) fn nrictl(node: &Node, arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("nrictl");
    assert!(program.is_file(), "{} is missing: `cargo build -p nrictl`", program.display());
    let mut command = Command::new(program);
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    command.args(arguments).output().unwrap()
}

/// Returns the findings, as severity, code and text.
fn doctor(node: &Node) -> Vec<(String, String, String)> {
    let output = nrictl(node, &["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |finding: &Value, member: &str| finding[member].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|f| (text(f, "severity"), text(f, "code"), text(f, "text"))).collect()
}

/// Returns the texts of the findings with a code, each with its severity.
pub(crate) fn findings(node: &Node, code: &str) -> Vec<String> {
    let found = doctor(node).into_iter().filter(|finding| finding.1 == code);
    found.map(|(severity, _, text)| format!("{severity} {text}")).collect()
}

fn refusal(node: &Node, id: &str) -> String {
    let bundle = bundle_with(node, id, CONFIG);
    match create(node, id, &bundle).0 {
        Reply::Refused { message } => message,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

/// Adds a plugin that is a file, and not a link to a program that the tests share.
pub(crate) fn add_plugin(node: &Node, name: &str) {
    let file = node.plugins().join(name);
    fs::write(&file, format!("#!/bin/sh\nexec '{}'\n", example("logger").display())).unwrap();
    set_mode(&file, 0o755);
}

#[test]
fn doctor_status_and_reload_agree_on_every_file_of_the_plugin_directory() {
    let node = Node::new("");
    for name in ["10-runs", "20-off", "30-bad", "40-switched-off", "50-refused"] {
        add_plugin(&node, name);
    }
    set_mode(&node.plugins().join("20-off"), 0o644);
    set_mode(&node.plugins().join("30-bad"), 0o777);
    fs::write(node.plugins().join("notes.txt"), "not a plugin").unwrap();
    let nrid = node.start();
    set_mode(&node.plugins().join("40-switched-off"), 0o644);
    set_mode(&node.plugins().join("50-refused"), 0o777);

    let refused = "writable by everybody";
    let check = |code: &str, begin: &str, why: &str| {
        let found = findings(&node, code);
        assert!(found.iter().any(|f| f.starts_with(begin) && f.contains(why)), "{found:?}");
        assert_eq!(found.len(), 1, "{found:?}");
    };
    assert_eq!(findings(&node, "plugin-active").len(), 3);
    check("plugin-ignored", "info 20-off: not launched", "not executable");
    check("plugin-unusable", "problem 30-bad: not launched", refused);
    check("plugin-reload-due", "warning 40-switched-off: still runs", "no longer executable");
    check("plugin-runs-unusable", "problem 50-refused: runs, but its file is refused", refused);

    let lines = |output: Output| String::from_utf8(output.stdout).unwrap();
    let has_line = |text: &str, parts: [&str; 3]| {
        let is_it =
            |line: &str| line.starts_with(parts[0]) && parts.iter().all(|p| line.contains(p));
        assert!(text.lines().any(is_it), "{parts:?}: {text}");
    };
    let status = lines(nrictl(&node, &["status"]));
    has_line(&status, ["20-off", "not launched", "not executable"]);
    has_line(&status, ["30-bad", "not launched", refused]);
    has_line(&status, ["40-switched-off", "no longer executable", "nrictl reload"]);
    has_line(&status, ["50-refused", "runs, but its file is refused", refused]);
    assert!(!status.contains("notes.txt"), "{status}");

    let reloaded = nrictl(&node, &["reload"]);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    let reloaded = lines(reloaded);
    has_line(&reloaded, ["10-runs", "kept", ""]);
    has_line(&reloaded, ["20-off", "ignored", "not executable"]);
    has_line(&reloaded, ["30-bad", "unusable", refused]);
    has_line(&reloaded, ["40-switched-off", "ended", "no longer executable"]);
    has_line(&reloaded, ["50-refused", "unusable", refused]);
    assert!(!reloaded.contains("notes.txt"), "{reloaded}");
    // The plugin that was switched off is now like one that was never on.
    let ignored = findings(&node, "plugin-ignored");
    assert_eq!(ignored.len(), 2, "{ignored:?}");
    assert!(findings(&node, "plugin-reload-due").is_empty());
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn doctor_is_red_while_creations_are_refused_because_of_a_required_plugin() {
    let node = Node::new("[[plugin]]\nmatch = '10-must'\nrequired = true\n");
    node.plugin("10-must");
    let nrid = node.start();
    assert!(findings(&node, "plugin-required-missing").is_empty());
    fs::remove_file(node.plugins().join("10-must")).unwrap();
    nrictl(&node, &["reload"]);
    let message = refusal(&node, "refused");
    assert!(message.contains("required plugin 10-must is not active"), "{message}");
    for part in ["'nrictl status'", nri_locate::BYPASS_ENV, nri_locate::BYPASS_FILE] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(message.lines().count(), 1, "{message}");
    let found = findings(&node, "plugin-required-missing");
    let [found] = &*found else { panic!("{found:?}") };
    assert!(found.starts_with("problem the plugin \"10-must\" is required"), "{found}");
    assert!(node.status().missing_required == ["10-must"]);
    node.plugin("10-must");
    nrictl(&node, &["reload"]);
    assert!(findings(&node, "plugin-required-missing").is_empty());
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn doctor_is_red_while_no_record_can_be_written() {
    let node = Node::new("");
    let nrid = node.start();
    assert_eq!(findings(&node, "state-dir-writable").len(), 1);
    // A file in the place of the directory in which records are written.
    let spare = node.state_dir().join("spare");
    fs::remove_dir_all(&spare).unwrap();
    fs::write(&spare, "").unwrap();
    let message = refusal(&node, "refused");
    assert!(message.contains("record"), "{message}");
    // nrid checks at most every 100 ms.
    let found = wait_until("the finding", || findings(&node, "state-dir-not-writable").pop());
    assert!(found.starts_with("problem nrid cannot write a record"), "{found}");
    let status = nrictl(&node, &["status"]);
    assert!(String::from_utf8(status.stdout).unwrap().contains("cannot write a record"));
    fs::remove_file(&spare).unwrap();
    fs::create_dir(&spare).unwrap();
    wait_until("no finding", || findings(&node, "state-dir-not-writable").is_empty().then_some(()));
    node.stop();
    nrid.wait_for_exit();
}

/// An external plugin, killed when it is dropped.
struct External(Child);

impl External {
    fn start(node: &Node) -> Self {
        let mut command = Command::new(example("logger"));
        command.args(["--idx", "10", "--name", "a"]);
        command.arg("--socket").arg(node.state_dir().join("plugins/nri.sock"));
        command.env("NRI_PLUGIN_SOCKET", node.state_dir().join("plugins/nri.sock"));
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until these processes have the active sessions.
fn wait_for_active(node: &Node, pids: &[u32]) {
    wait_until("the external plugins", || {
        let status = node.status();
        let active = status.plugins.iter().filter(|p| p.state == "active");
        active.map(|p| p.pid).eq(pids.iter().map(|pid| Some(*pid))).then_some(())
    });
}

#[test]
fn a_third_replacement_is_a_warning_and_a_session_that_ended_is_an_information() {
    let node = Node::new("");
    let nrid = node.start();
    let mut sessions: Vec<External> = Vec::new();
    for _ in 0..3 {
        let newer = External::start(&node);
        wait_for_active(&node, &[newer.0.id()]);
        if let Some(mut older) = sessions.pop() {
            // The plugin ends by itself when its session is closed.
            assert!(older.0.wait().unwrap().success());
        }
        sessions.push(newer);
    }
    assert_eq!(findings(&node, "plugin-twice"), [""; 0]);
    assert_eq!(findings(&node, "plugin-left"), [""; 0]);
    let refused = External::start(&node);
    let twice = wait_until("the finding", || findings(&node, "plugin-twice").pop());
    let pids = [sessions[0].0.id(), refused.0.id()];
    let [holder, other] = pids.map(|pid| format!("process {pid} "));
    assert!(twice.starts_with("warning 10-a: refused: "), "{twice}");
    assert!(twice.contains(&holder) && twice.contains(&other), "{twice}: {pids:?}");
    wait_for_active(&node, &pids[..1]);
    drop((sessions, refused));
    wait_for_active(&node, &[]);
    let left = findings(&node, "plugin-left");
    assert!(matches!(&*left, [one, ..] if one.starts_with("info 10-a: has left")), "{left:?}");
    let of_plugins: Vec<_> =
        doctor(&node).into_iter().filter(|f| f.0 == "problem" && f.1.contains("plugin")).collect();
    assert_eq!(of_plugins, []);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn a_plugin_that_refuses_a_container_has_not_failed() {
    let node = Node::new("");
    plugin(&node, "10-a", "[create]\nrefuse = 'not on this host'\n");
    let nrid = node.start();
    let message = refusal(&node, "c1");
    assert_eq!(message, "plugin 10-a refused CREATE_CONTAINER of c1: not on this host");
    assert_eq!(findings(&node, "plugin-failed"), [""; 0]);
    assert_eq!(findings(&node, "plugin-active"), ["ok 10-a: active"]);
    let status = node.status();
    assert_eq!(status.plugins[0].last_error, None);
    let total = status.plugins[0].calls.as_ref().map(|calls| calls.total).unwrap();
    assert_eq!((total.refusals, total.failures), (1, 0));
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn doctor_leaves_no_line_in_the_log_of_nrid() {
    let node = Node::new("");
    // `debug` and not `trace`, which has a line for each frame.
    node.configure("[log]\nlevel = 'debug'\n");
    let nrid: Nrid = node.start();
    wait_until("the start", || nrid.output().contains(" ready ").then_some(()));
    let before = nrid.output();
    let socket = node.state_dir().join("plugins/nri.sock");
    let ours = findings(&node, "socket-ours");
    assert!(ours.iter().any(|text| text.contains(&*socket.to_string_lossy())), "{ours:?}");
    // A connection that says nothing is a line. It comes after the lines of earlier connections.
    drop(std::os::unix::net::UnixStream::connect(&socket).unwrap());
    let line = "plugin state changed";
    let lines = || nrid.output()[before.len()..].matches(line).count();
    wait_until("the line of a connection", || (lines() > 0).then_some(()));
    assert_eq!(lines(), 1, "{}", nrid.output());
    let new = nrid.output().split_off(before.len());
    assert!(!new.contains("WARN") && !new.contains("ERROR"), "{new}");
    node.stop();
    nrid.wait_for_exit();
}
