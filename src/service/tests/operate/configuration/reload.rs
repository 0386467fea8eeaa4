//! Tests of reloads: configuration and plugin directory are read again while `nrid` runs.

use crate::node::{Node, wait_until};
use nri_control::{Reloaded, Reply, Request};
use rustix::process::Signal;
use std::{fs, os::unix::fs::PermissionsExt, process::Command};

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
    for part in [
        "config.toml",
        "line ",
        "column ",
        "files",
        "keeps the previous configuration",
        "wrappers follow",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    node.configure("");
    fs::set_permissions(node.config(), fs::Permissions::from_mode(0o666)).unwrap();
    let Reply::Refused { message } = node.call(&Request::Reload) else { panic!() };
    assert!(message.contains("writable by everybody"), "{message}");
    let after = node.status();
    assert_eq!((after.pid, after.config_digest), (before.pid, before.config_digest));
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn status_shows_added_and_removed_plugins_and_a_reload_applies_them() {
    let node = Node::new("");
    node.plugin("10-changed");
    node.plugin("20-removed");
    let nrid = node.start();
    let pid =
        |name: &str| node.status().plugins.iter().find(|p| p.name == name).and_then(|p| p.pid);
    let first = pid("10-changed").unwrap();
    assert_eq!(changes(&reload(&node)), ["10-changed kept", "20-removed kept"]);
    node.plugin("30-new");
    fs::remove_file(node.plugins().join("20-removed")).unwrap();
    fs::write(node.path("conf.d/10-changed.conf"), "# changed\n").unwrap();
    let pending: Vec<_> =
        node.status().due.iter().map(|d| format!("{} {} {}", d.name, d.change, d.why)).collect();
    assert_eq!(
        pending,
        [
            "10-changed relaunch configuration changed",
            "20-removed end file removed",
            "30-new launch file added after the start"
        ]
    );
    assert_eq!(node.status().mode, "apply");
    // `30-enw` is a typing error for `30-new`, and `late` is a plugin that has not connected.
    node.configure(
        "mode = 'shadow'\n[[plugin]]\nmatch = '30-enw'\ndeny = ['env']\n[[plugin]]\n\
                    match = 'late'\nrequired = true\n",
    );
    let reloaded = reload(&node);
    assert_eq!(
        changes(&reloaded),
        [
            "10-changed relaunched configuration changed",
            "20-removed ended file removed",
            "30-new launched"
        ]
    );
    assert!(reloaded.changed);
    let [unmatched, required] = &*reloaded.notes else { panic!("{:?}", reloaded.notes) };
    assert!(unmatched.contains("30-enw") && unmatched.contains("no effect until"), "{unmatched}");
    assert!(
        required.contains("late") && required.contains("creations are refused until"),
        "{required}"
    );
    let status = node.status();
    assert_eq!(status.idle_policies, ["30-enw", "late"]);
    assert_eq!(status.mode, "shadow");
    assert!(
        status.due.is_empty() && pid("10-changed").unwrap() != first && pid("20-removed").is_none()
    );
    node.stop();
    assert!(nrid.wait_for_exit().contains("30-enw"), "the log does not name the policy");
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
    // state_dir is not reported, because the command line also sets it, and has precedence.
    assert_eq!(keys, ["socket_path", "disable_connections"]);
    assert_eq!(node.status().sockets.len(), 2, "the reload changed the sockets");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn sighup_reloads_and_sigusr1_reopens_the_log() {
    let node = Node::new("");
    let log = node.path("log");
    let with_log = |more: &str| node.configure(&format!("{more}[log]\nfile = {log:?}\n"));
    with_log("");
    let nrid = node.start();
    let log_contains = |part: &str| fs::read_to_string(&log).unwrap_or_default().contains(part);
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
    nrid.wait_for_exit();
    assert!(log_contains("ending"));
}

#[test]
fn an_ambiguous_allow_list_is_a_warning_of_check_and_a_note_of_reload() {
    let ambiguous = "[[plugin]]\nmatch = '*'\nallow = ['env', 'resources']\n";
    let node = Node::new(ambiguous);
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nrid"));
        let output = command.arg("--check").arg("--config").arg(node.config()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let what = "name resources.devices in allow or in deny";
    let (is_accepted, message) = check();
    assert!(is_accepted && message.contains(what), "{message}");
    // A start must not fail, either, since no container could be created then.
    let nrid = node.start();
    assert!(reload(&node).notes.iter().any(|note| note.contains(what)));
    node.configure(
        "[[plugin]]\nmatch = '*'\nallow = ['resources']\ndeny = ['resources.devices']\n",
    );
    assert_eq!(check(), (true, String::new()));
    assert_eq!(reload(&node).notes, Vec::<String>::new());
    node.stop();
    nrid.wait_for_exit();
}

/// Earlier releases accepted any level. If a start refused such a value, `nrid` would not start
/// after an upgrade.
#[test]
fn a_start_corrects_what_check_and_reload_refuse() {
    let node = Node::new("[log]\nlevel = 'loud'\n");
    let what = "\"loud\" is not a level";
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nrid"));
        command.arg("--check").arg("--config").arg(node.config()).output().unwrap()
    };
    let output = check();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains(what), "{message}");
    let nrid = node.start();
    // This line has the level `info`, which replaces `loud`.
    wait_until("the log", || nrid.output().contains(" ready ").then_some(()));
    let log = nrid.output();
    assert!(log.contains(what) && log.contains("a start uses \"info\""), "{log}");
    let refused = |what: &str| {
        let reply = node.call(&Request::Reload);
        let Reply::Refused { message } = reply else { panic!("{reply:?}") };
        assert!(message.contains(what) && message.contains("keeps the previous"), "{message}");
        assert!(!message.contains("containers are refused"), "{message}");
    };
    refused(what);
    node.configure("[cdi]\nspec_dirs = ['cdi']\n");
    refused("\"cdi\" is not an absolute path; a start takes it as relative to /");
    node.configure("[log]\nlevel = 'WARNING'\n");
    assert!(check().status.success());
    reload(&node);
    node.stop();
    nrid.wait_for_exit();
}

/// A missing path is only a warning, since a runtime, for example, may be installed later.
#[test]
fn check_and_reload_name_missing_paths() {
    let node = Node::new("");
    let nrid = node.start();
    assert!(reload(&node).missing.is_empty());
    let pipe = node.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    node.configure(&format!(
        "runtime.path = '/nowhere/runc'\nblockio.config_file = '/nowhere/b.yaml'\n\
         audit.file = {pipe:?}\n"
    ));
    let unwritten = format!("audit.file = {pipe:?}: not a file; no audit log is written");
    let expected = [
        "runtime.path = \"/nowhere/runc\": not found; \
         calls of the wrapper that need this runtime fail",
        "blockio.config_file = \"/nowhere/b.yaml\": no such file; block I/O classes are refused",
        &unwritten,
    ];
    assert_eq!(reload(&node).missing, expected);
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_nrid"));
    let check = check.arg("--check").arg("--config").arg(node.config()).output().unwrap();
    let warnings = expected.map(|text| format!("nrid: warning: {text}\n")).concat();
    assert!(check.status.success());
    assert_eq!(String::from_utf8(check.stderr).unwrap(), warnings);
    fs::remove_dir_all(node.plugins()).unwrap();
    node.configure("");
    let missing = reload(&node).missing;
    assert!(missing[0].ends_with(": no such directory; no plugin is launched"), "{missing:?}");
    node.stop();
    nrid.wait_for_exit();
}

/// The plugin `rules` warns of rules that need a fact which the configuration does not give.
#[test]
fn launched_plugins_know_which_facts_the_configuration_gives() {
    let node = Node::new("");
    node.configure("containers.facts = ['engine', 'privileged']\n");
    node.plugin("10-a");
    let nrid = node.start();
    let facts = || {
        let pid = node.status().plugins[0].pid.unwrap();
        let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        let mut variables = environ.split('\0');
        variables.find_map(|v| Some(v.strip_prefix("NRI_CONTAINER_RUNTIME_FACTS=")?.to_owned()))
    };
    assert_eq!(facts().as_deref(), Some("engine,privileged"));
    node.configure("");
    assert_eq!(changes(&reload(&node)), ["10-a relaunched variables changed"]);
    assert_eq!(facts().as_deref(), Some(""));
    node.stop();
    nrid.wait_for_exit();
}
