//! Reloads of configuration and plugin directory while `nrid` runs.

use crate::node::{Node, wait_until};
use nri_control::{Reloaded, Reply, Request};
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt};

fn reload(node: &Node) -> Reloaded {
    match node.call(&Request::Reload) {
        Reply::Reloaded(reloaded) => *reloaded,
        other => panic!("{other:?}"),
    }
}

fn changes(reloaded: &Reloaded) -> Vec<String> {
    let text = |p: &nri_control::PluginChange| {
        format!("{} {} {}", p.name, p.change, p.why).trim().to_owned()
    };
    reloaded.plugins.iter().map(text).collect()
}

#[test]
fn an_invalid_configuration_is_refused_with_its_position_and_changes_nothing() {
    let node = Node::new("");
    let nrid = node.start();
    let before = node.status();
    node.configure("[log]\nlevel = 'debug'\nfiles = 3\n");
    let Reply::Refused { message } = node.call(&Request::Reload) else { panic!() };
    for word in [
        "config.toml",
        "line ",
        "column ",
        "files",
        "keeps the previous configuration",
        "containers are refused",
    ] {
        assert!(message.contains(word), "{word}: {message}");
    }
    node.configure("");
    fs::set_permissions(node.config(), fs::Permissions::from_mode(0o666)).unwrap();
    let Reply::Refused { message } = node.call(&Request::Reload) else { panic!() };
    assert!(message.contains("writable by everybody"), "{message}");
    let after = node.status();
    assert_eq!((after.pid, after.config_digest), (before.pid, before.config_digest));
    node.stop();
    nrid.ended();
}

#[test]
fn status_shows_added_and_removed_plugins_and_a_reload_applies_them() {
    let node = Node::new("");
    node.plugin("10-stays");
    node.plugin("20-goes");
    let nrid = node.start();
    let pid =
        |name: &str| node.status().plugins.iter().find(|p| p.name == name).and_then(|p| p.pid);
    let first = pid("10-stays").unwrap();
    assert_eq!(changes(&reload(&node)), ["10-stays kept", "20-goes kept"]);
    node.plugin("30-new");
    fs::remove_file(node.plugins().join("20-goes")).unwrap();
    fs::write(node.path("conf.d/10-stays.conf"), "# for another process\n").unwrap();
    let due: Vec<_> =
        node.status().due.iter().map(|d| format!("{} {} {}", d.name, d.change, d.why)).collect();
    assert_eq!(
        due,
        [
            "10-stays relaunch configuration changed",
            "20-goes end file removed",
            "30-new launch dropped in after the start"
        ]
    );
    assert_eq!(node.status().mode, "apply");
    node.configure(
        "mode = 'shadow'\n[[plugin]]\nmatch = '30-enw'\ndeny = ['env']\n[[plugin]]\n\
                    match = 'late'\nrequired = true\n",
    );
    let reloaded = reload(&node);
    assert_eq!(
        changes(&reloaded),
        [
            "10-stays relaunched configuration changed",
            "20-goes ended file removed",
            "30-new launched"
        ]
    );
    assert!(reloaded.changed);
    let [idle, required] = &*reloaded.notes else { panic!("{:?}", reloaded.notes) };
    assert!(idle.contains("30-enw") && idle.contains("no effect until"), "{idle}");
    assert!(
        required.contains("late") && required.contains("creations are refused until"),
        "{required}"
    );
    let status = node.status();
    assert_eq!(status.idle_policies, ["30-enw", "late"]);
    assert_eq!(status.mode, "shadow");
    assert!(status.due.is_empty() && pid("10-stays").unwrap() != first && pid("20-goes").is_none());
    node.stop();
    assert!(nrid.ended().contains("30-enw"), "the log names the policy");
}

#[test]
fn a_reload_reports_keys_that_need_a_restart() {
    let node = Node::new("");
    let nrid = node.start();
    let elsewhere =
        format!("disable_connections = true\nstate_dir = {:?}\n", node.path("elsewhere"));
    node.configure_with(&elsewhere, &node.path("other.sock"));
    let needs = reload(&node).needs_restart;
    let keys: Vec<_> = needs.iter().map(|n| n.split(':').next().unwrap()).collect();
    // Not state_dir: the command line sets it here, and has precedence.
    assert_eq!(keys, ["socket_path", "disable_connections"]);
    assert_eq!(node.status().sockets.len(), 1, "the socket stays until the restart");
    node.stop();
    nrid.ended();
}

#[test]
fn sighup_reloads_and_sigusr1_reopens_the_log() {
    let node = Node::new("");
    let log = node.path("log");
    let with_log = |more: &str| node.configure(&format!("{more}[log]\nfile = {log:?}\n"));
    with_log("");
    let nrid = node.start();
    let log_contains = |word: &str| fs::read_to_string(&log).unwrap_or_default().contains(word);
    with_log("plugin_request_timeout = 3\n");
    nrid.signal(Signal::HUP);
    wait_until("the reload", || log_contains("reloaded").then_some(()));
    with_log("nonsense = 1\n");
    nrid.signal(Signal::HUP);
    wait_until("the refusal", || log_contains("reload failed").then_some(()));
    fs::rename(&log, node.path("moved")).unwrap();
    with_log("");
    nrid.signal(Signal::USR1);
    wait_until("the log", || log.exists().then_some(()));
    node.stop();
    nrid.ended();
    assert!(log_contains("ending"));
}
