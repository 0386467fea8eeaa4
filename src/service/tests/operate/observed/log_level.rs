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
