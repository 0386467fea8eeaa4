//! Tests of `nrictl log-level`: the level of the log changes while `nrid` runs.

use crate::{
    create::{bundle_with, create},
    doctor::nrictl,
    node::Node,
};
use nri_control::{Reply, Request};
use rustix::process::Signal;

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

fn log_level(node: &Node, arguments: &[&str]) -> String {
    let output = nrictl(node, &[&["log-level"], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn the_level_changes_at_run_time_until_the_next_reload() {
    let node = Node::new("");
    let nrid = node.start();
    // Creates a container, and returns whether that is logged at level debug.
    let logs_debug = |id: &str| {
        let (_, client) = create(&node, id, &bundle_with(&node, id, CONFIG));
        drop(client);
        node.status();
        let of_container = format!("container=\"{id}\"");
        let is_debug = |line: &str| line.contains("DEBUG") && line.contains(&of_container);
        nrid.output().lines().any(is_debug)
    };
    assert_eq!(log_level(&node, &[]), "info");
    assert!(!logs_debug("c1"));

    let changed = "debug (until the next reload; configured: info)";
    assert_eq!(log_level(&node, &["debug"]), changed);
    assert!(logs_debug("c2"), "{}", nrid.output());
    let status = nrictl(&node, &["status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(&format!("log level        {changed}\n")), "{status}");
    let json = log_level(&node, &["--json"]);
    assert_eq!(json, r#"{"level":"debug","configured":"info"}"#);
    // A log that is opened again, as after its rotation, keeps the level.
    nrid.signal(Signal::USR1);
    assert!(logs_debug("c3"));
    assert_eq!(log_level(&node, &["Warning"]), "warn (until the next reload; configured: info)");

    let refused = nrictl(&node, &["log-level", "loud"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("\"loud\" is not a level; known levels: off, error"), "{error}");
    assert_eq!(log_level(&node, &["--reset"]), "info");

    log_level(&node, &["trace"]);
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert_eq!(log_level(&node, &[]), "info");
    node.configure("[log]\nlevel = 'error,nri_wire=debug'\n");
    assert!(matches!(node.call(&Request::Reload), Reply::Reloaded(_)));
    assert_eq!(log_level(&node, &[]), "error,nri_wire=debug");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn lines_about_a_container_have_its_pod_and_the_plugin() {
    let node = Node::new(
        "plugin_request_timeout = '200ms'\n[log]\nlevel = 'debug'\n\
         [[plugin]]\nmatch = '*'\nconsecutive_timeouts = 0\n",
    );
    node.plugin("10-logger");
    let nrid = node.start();
    let pid = node.status().plugins[0].pid.unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    let (reply, client) = create(&node, "c1", &bundle_with(&node, "c1", CONFIG));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    drop(client);
    node.status();
    let output = nrid.output();
    let skipped =
        "plugin skipped: no reply within 200ms plugin=10-logger container=\"c1\" pod=\"c1\"";
    assert!(output.lines().any(|line| line.contains(skipped)), "{output}");
    for line in output.lines().filter(|line| line.contains("container=\"c1\"")) {
        assert!(line.contains("pod=\"c1\""), "{line}");
    }
    node.stop();
    nrid.wait_for_exit();
}
