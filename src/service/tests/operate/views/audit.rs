//! Tests of the audit log.

use crate::{
    containers::{Sleep, create_and_start, perform},
    create::{bundle_with, create},
    node::{Node, example, remove_directory, wait_until},
};
use nri_control::{Exit, Finished, Reply, Request, Verb};
use nri_files::{AuditEvent, AuditLine};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, path::Path};

/// Adds a plugin that does what this configuration says.
pub(crate) fn plugin(node: &Node, name: &str, config: &str) {
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join(name)).unwrap();
    fs::write(node.path("conf.d").join(format!("{name}.conf")), config).unwrap();
}

fn read(path: &Path) -> Vec<AuditLine> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for a line about a container, and returns it.
fn wait_for(node: &Node, container: &str, event: AuditEvent) -> AuditLine {
    let path = node.state_dir().join("audit.log");
    let is_wanted = |line: &AuditLine| line.container == container && line.event == event;
    wait_until(event.name(), || read(&path).into_iter().find(is_wanted))
}

/// Returns the changes of a line as text.
fn changes(line: &AuditLine) -> Vec<String> {
    let value = |v: &Option<serde_json::Value>| v.as_ref().map_or("-".into(), |v| v.to_string());
    let text = |c: &nri_files::FieldChange| {
        format!("{} {} {}", c.field, value(&c.before), value(&c.after))
    };
    line.changes.iter().map(text).collect()
}

#[test]
fn an_adjusted_container_has_lines_from_its_creation_to_its_removal() {
    let node = Node::new("");
    plugin(&node, "10-a", "[create]\nenv = { set = { SECRET = 'hidden' } }\n");
    let create = "[create]\nannotations = { set = { k = 'v' } }\n[create.resources]\nmemory = 0\n";
    plugin(&node, "20-b", create);
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    drop(process);
    perform(&node, Verb::Delete, "c1", "/bin/false", None).unwrap();
    wait_for(&node, "c1", AuditEvent::Removed);
    let text = fs::read_to_string(node.state_dir().join("audit.log")).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    let lines = read(&node.state_dir().join("audit.log"));
    let of: Vec<_> = lines.iter().filter(|line| line.container == "c1").collect();
    let events: Vec<_> = of.iter().map(|line| (line.event.name(), &*line.plugin)).collect();
    let expected = [
        ("consulted", ""),
        ("adjustment", "10-a"),
        ("adjustment", "20-b"),
        ("ignored", "20-b"),
        ("created", ""),
        ("started", ""),
        ("stopped", ""),
        ("removed", ""),
    ];
    assert_eq!(events, expected);
    assert_eq!(changes(of[1]), [r#"env[SECRET] - "***""#]);
    assert_eq!(changes(of[2]), [r#"annotations[k] - "v""#]);
    assert_eq!(
        (&of[0].plugins[..], &*of[0].missed),
        (&["10-a", "20-b"].map(String::from)[..], &[][..])
    );
    assert!(of[3].ignored[0].contains("memory.limit"), "{:?}", of[3]);
    assert!(of.iter().all(|line| line.creation == of[0].creation && line.creation > 0));
    assert_eq!((&*of[0].request, &*of[0].runtime), ("create", "false"));
    let registered: Vec<_> =
        lines.iter().filter(|l| l.event == AuditEvent::PluginRegistered).collect();
    assert_eq!(registered.len(), 2, "{lines:?}");
    node.stop();
    nrid.wait_for_exit();
    // The lines of the end are written before the process ends.
    let lines = read(&node.state_dir().join("audit.log"));
    let closed = lines.iter().filter(|line| line.event == AuditEvent::PluginClosed);
    assert_eq!(closed.count(), 2, "{lines:?}");
}

#[test]
fn the_end_of_a_plugin_that_is_launched_again_has_one_line() {
    let node = Node::new("plugin_restart_backoff = '10ms'\n");
    node.plugin("10-a");
    let nrid = node.start();
    let path = node.state_dir().join("audit.log");
    let count = |event| read(&path).iter().filter(|line| line.event == event).count();
    let registered = || count(AuditEvent::PluginRegistered);
    wait_until("the plugin", || (registered() == 1).then_some(()));
    let pid = node.status().plugins[0].pid.unwrap();
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    wait_until("the next plugin", || (registered() == 2).then_some(()));
    assert_eq!(count(AuditEvent::PluginClosed), 1);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn a_refused_creation_names_the_plugins_and_the_field() {
    let node = Node::new("");
    for name in ["10-a", "20-b"] {
        plugin(&node, name, "[create]\nannotations = { set = { k = 'v' } }\n");
    }
    let _nrid = node.start();
    let bundle = bundle_with(&node, "b", r#"{"ociVersion":"1.0.2"}"#);
    let (reply, _client) = create(&node, "c1", &bundle);
    let Reply::Refused { message } = reply else { panic!("{reply:?}") };
    let line = wait_for(&node, "c1", AuditEvent::Refusal);
    assert_eq!((line.plugin.as_str(), line.request.as_str()), ("20-b,10-a", "create"));
    assert_eq!((line.changes[0].field.as_str(), &line.message), ("annotations[k]", &message));
    let consulted = wait_for(&node, "c1", AuditEvent::Consulted);
    assert_eq!(consulted.plugins, ["10-a", "20-b"]);
}

#[test]
fn a_failed_creation_has_the_error_of_the_runtime_and_the_plugins_that_it_misses() {
    let node = Node::new("[[plugin]]\nmatch = '*'\nrestart_backoff = '10m'\n");
    std::os::unix::fs::symlink("/bin/false", node.plugins().join("10-ends")).unwrap();
    let _nrid = node.start();
    wait_until("the end of the plugin", || {
        let plugins = node.status().plugins;
        plugins.iter().any(|plugin| plugin.state == "restarting").then_some(())
    });
    let bundle = bundle_with(&node, "b", r#"{"ociVersion":"1.0.2"}"#);
    let (reply, client) = create(&node, "c1", &bundle);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    let finished =
        Finished { exit: Exit::Code(3), pid: None, error: Some("no such device".to_owned()) };
    client.call(&Request::Finished(finished), &[]).unwrap();
    let line = wait_for(&node, "c1", AuditEvent::Failed);
    assert_eq!((line.request.as_str(), line.exit_code), ("create", Some(3)));
    assert!(line.message.contains("no such device"), "{line:?}");
    let consulted = wait_for(&node, "c1", AuditEvent::Consulted);
    assert!(consulted.plugins.is_empty() && consulted.missed[0].plugin == "10-ends");
    assert!(consulted.missed[0].why.contains("exited with code 1"), "{consulted:?}");
}

#[test]
fn the_log_is_kept_by_a_restart_and_created_again_with_its_directory() {
    let node = Node::new("");
    plugin(&node, "10-a", "[create]\nannotations = { set = { k = 'v' } }\n");
    let nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let reply = node.call(&Request::Restart { program: None });
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    wait_for(&node, "c1", AuditEvent::Started);
    wait_until("the next nrid", || {
        let lines = read(&node.state_dir().join("audit.log"));
        let registered = lines.iter().filter(|l| l.event == AuditEvent::PluginRegistered);
        (registered.count() == 2).then_some(())
    });
    remove_directory(&node.state_dir());
    wait_until("the control socket", || node.socket().exists().then_some(()));
    let second = Sleep::new();
    wait_until("nrid to listen", || nri_control::Client::connect(&node.socket()).ok());
    create_and_start(&node, "c2", &second).unwrap();
    wait_for(&node, "c2", AuditEvent::Started);
    drop(nrid);
}

#[test]
fn what_happened_while_no_nrid_ran_is_written_by_the_next_one() {
    let node = Node::new("");
    let nrid = node.start();
    let (ends, vanishes) = (Sleep::new(), Sleep::new());
    create_and_start(&node, "ends", &ends).unwrap();
    create_and_start(&node, "vanishes", &vanishes).unwrap();
    node.stop();
    nrid.wait_for_exit();
    drop((ends, vanishes));
    fs::remove_dir(node.path("root/vanishes")).unwrap();
    let _nrid = node.start();
    wait_for(&node, "ends", AuditEvent::Stopped);
    wait_for(&node, "vanishes", AuditEvent::Removed);
}

#[test]
fn a_log_that_cannot_be_written_is_a_problem_of_the_status() {
    let node = Node::new("");
    node.configure(&format!("[audit]\nfile = {:?}\n", node.path("missing/audit.log")));
    let _nrid = node.start();
    create_and_start(&node, "c1", &Sleep::new()).unwrap();
    let problem = wait_until("the problem", || {
        node.status().problems.into_iter().find(|problem| problem.contains("audit log"))
    });
    assert!(problem.contains("missing/audit.log: No such file or directory"), "{problem}");
    fs::create_dir(node.path("missing")).unwrap();
    wait_until("the line", || {
        let lines = read(&node.path("missing/audit.log"));
        lines.iter().any(|line| line.event == AuditEvent::Started).then_some(())
    });
    wait_until("no problem", || {
        let problems = node.status().problems;
        (!problems.iter().any(|problem| problem.contains("audit log"))).then_some(())
    });
}

#[test]
fn the_configuration_switches_the_log_off_or_moves_it() {
    let node = Node::new("[audit]\nenable = false\n");
    let _nrid = node.start();
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let other = node.path("other.log");
    node.configure(&format!("[audit]\nfile = {other:?}\n"));
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    let second = Sleep::new();
    create_and_start(&node, "c2", &second).unwrap();
    wait_until("the other file", || {
        read(&other).iter().any(|line| line.container == "c2").then_some(())
    });
    assert!(!node.state_dir().join("audit.log").exists());
    assert!(read(&other).iter().all(|line| line.container != "c1"));
}
