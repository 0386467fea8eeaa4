//! Tests that creations after a restart or a crash wait for the external plugins that were
//! connected before.

use crate::{
    create::{bundle_with, create, own_config},
    node::{Node, Nrid, example, wait_until},
    restart::restart,
};
use nri_control::Reply;
use rustix::process::Signal;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

/// A timeout longer than any test: a creation that waits for a plugin in vain fails the test.
const NEVER: &str = "plugin_registration_timeout = '1h'\n";

/// An external plugin, killed when it is dropped.
pub(crate) struct External(Child);

impl External {
    /// Starts the plugin `10-a`, which adds an environment variable, and waits until it is active.
    pub(crate) fn start(node: &Node) -> Self {
        let rules = node.path("a.toml");
        fs::write(&rules, "[create]\nenv = { set = { ADDED = 'yes' } }\n").unwrap();
        let mut command = Command::new(example("adjust"));
        command.args(["--idx", "10", "--name", "a", "--config"]).arg(rules);
        command.arg("--socket").arg(node.state_dir().join("nri.sock"));
        let plugin = Self(command.stdin(Stdio::null()).spawn().unwrap());
        wait_until("the external plugin", || is_active(node).then_some(()));
        plugin
    }

    /// Ends the plugin, and waits until `nrid` has noticed that the session ended.
    fn leave(self, node: &Node) {
        drop(self);
        wait_until("the end of the session", || (!is_active(node)).then_some(()));
    }

    fn wait_for_exit(mut self) {
        wait_until("the plugin to end", || self.0.try_wait().unwrap());
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_active(node: &Node) -> bool {
    node.status().plugins.iter().any(|p| p.name == "10-a" && p.state == "active")
}

fn is_adjusted(node: &Node, id: &str) -> bool {
    own_config(node, id).is_some_and(|config| config.contains("ADDED=yes"))
}

/// Restarts `nrid`, and waits until the plugin has ended because its session was closed.
fn restart_and_end_plugin(plugin: External, node: &Node) {
    restart(node, Some(Path::new(env!("CARGO_BIN_EXE_nrid")))).unwrap();
    plugin.wait_for_exit();
}

/// Requests a creation, starts the plugin while the creation waits, and returns the reply.
fn create_then_start_plugin(node: &Node, nrid: &Nrid) -> (Reply, External) {
    let bundle = bundle_with(node, "waiting", CONFIG);
    thread::scope(|scope| {
        let creation = scope.spawn(|| create(node, "waiting", &bundle));
        wait_until("the creation", || {
            nrid.output().contains("creation waits for external plugins").then_some(())
        });
        assert!(!creation.is_finished());
        let plugin = External::start(node);
        // A wrapper that ends undoes the creation.
        let (reply, _wrapper) = creation.join().unwrap();
        assert!(is_adjusted(node, "waiting"), "{reply:?}");
        (reply, plugin)
    })
}

#[test]
fn a_creation_after_a_restart_waits_for_an_external_plugin() {
    let required = format!("{NEVER}[[plugin]]\nmatch = '10-a'\nrequired = true\n");
    for config in [NEVER, &required] {
        let node = Node::new(config);
        let nrid = node.start();
        restart_and_end_plugin(External::start(&node), &node);
        let (reply, _plugin) = create_then_start_plugin(&node, &nrid);
        assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    }
}

#[test]
fn a_creation_after_a_crash_waits_for_an_external_plugin() {
    let node = Node::new(NEVER);
    let nrid = node.start();
    let plugin = External::start(&node);
    // The file is written just after the status has changed.
    wait_until("the file of the plugins", || {
        let names = fs::read_to_string(node.state_dir().join("external-plugins.json")).ok()?;
        names.contains("10-a").then_some(())
    });
    nrid.signal(Signal::KILL);
    drop(nrid);
    plugin.wait_for_exit();
    let nrid = node.start();
    let (reply, _plugin) = create_then_start_plugin(&node, &nrid);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
}

#[test]
fn a_creation_waits_only_once_for_a_plugin_that_does_not_return() {
    let short = "plugin_registration_timeout = '300ms'\n";
    let node = Node::new(short);
    let nrid = node.start();
    restart_and_end_plugin(External::start(&node), &node);
    for id in ["first", "second"] {
        let bundle = bundle_with(&node, id, CONFIG);
        let (reply, _) = create(&node, id, &bundle);
        assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
        assert!(!is_adjusted(&node, id));
    }
    let warnings = nrid.output().matches("has not connected again within 300ms").count();
    assert_eq!(warnings, 1, "{}", nrid.output());
    // The next nrid no longer expects the plugin.
    restart(&node, Some(Path::new(env!("CARGO_BIN_EXE_nrid")))).unwrap();
    // The third `ready`, after the start and two restarts.
    wait_until("nrid to be ready", || nrid.output().matches(" ready").nth(2).map(|_| ()));
    node.stop();
    assert_eq!(nrid.wait_for_exit().matches("has not connected again").count(), 1);

    let node = Node::new(&format!("{short}[[plugin]]\nmatch = '10-a'\nrequired = true\n"));
    let _nrid = node.start();
    restart_and_end_plugin(External::start(&node), &node);
    let bundle = bundle_with(&node, "refused", CONFIG);
    let (Reply::Refused { message }, _) = create(&node, "refused", &bundle) else { panic!() };
    assert!(message.contains("required plugin 10-a is not active"), "{message}");
}

#[test]
fn a_creation_does_not_wait_for_a_plugin_that_has_left() {
    let node = Node::new(NEVER);
    let _nrid = node.start();
    External::start(&node).leave(&node);
    restart(&node, Some(Path::new(env!("CARGO_BIN_EXE_nrid")))).unwrap();
    let (reply, _) = create(&node, "c", &bundle_with(&node, "c", CONFIG));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
}

#[test]
fn a_container_that_tolerates_missing_plugins_does_not_wait() {
    let node = Node::new(&format!(
        "{NEVER}[default_validator]\ntolerate_missing_plugins_annotation = 'tolerates'\n"
    ));
    let _nrid = node.start();
    restart_and_end_plugin(External::start(&node), &node);
    let config = CONFIG.replacen('{', r#"{"annotations":{"tolerates":"true"},"#, 1);
    let (reply, _) = create(&node, "c", &bundle_with(&node, "c", &config));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
}
