//! Rootless Podman: a user's `nrid`, configuration and plugins.

use crate::adjusted::{IMAGE, WAIT};
use nri_integration::{engines::*, *};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Command},
};

/// Prints the variables that the plugins set, each or `-`.
const VARIABLES: [&str; 3] = ["sh", "-c", "echo ${LAUNCHED:--} ${EXTERNAL:--}"];

/// A plugin that the user has started. Dropping this value ends it.
struct UserPlugin(Child);

impl Drop for UserPlugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Journal of the launched plugin in the home directory.
const JOURNAL: &str = "launched.journal";

/// Returns why users cannot make user namespaces here, if they cannot.
fn lack_of_user_namespaces() -> Option<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let output = command.args(["unshare", "--user", "--map-root-user", "true"]).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("setpriv: {error}")),
    }
}

/// The events of a container that the launched plugin has received.
fn events(podman: &RootlessPodman, id: &str) -> Vec<String> {
    let journal = fs::read_to_string(podman.home(JOURNAL)).unwrap_or_default();
    let entries = journal.lines().filter_map(|line| serde_json::from_str(line).ok());
    let of_container = entries.filter(|entry: &serde_json::Value| entry["container"] == id);
    of_container.filter_map(|entry| entry["event"].as_str().map(str::to_owned)).collect()
}

fn config(variable: &str) -> String {
    format!("[create]\nenv = {{ set = {{ {variable} = \"set\" }} }}\n")
}

/// The plugins that are active, from `nrictl status`.
fn active_plugins(podman: &RootlessPodman) -> Vec<String> {
    let status = podman.out(&["nrictl", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("status is JSON");
    let plugins = status["status"]["plugins"].as_array().into_iter().flatten();
    let active = plugins.filter(|plugin| plugin["state"] == "active");
    active.filter_map(|plugin| plugin["name"].as_str().map(str::to_owned)).collect()
}

#[test]
fn rootless_podman_has_an_nrid_of_its_user() {
    let name = "rootless podman";
    if find_program("newuidmap").is_none() {
        return skip(name, "no newuidmap (uidmap); integration/engines/setup.sh installs it");
    }
    if let Some(reason) = lack_of_user_namespaces() {
        return limitation(name, &format!("users cannot make user namespaces here: {reason}"));
    }
    for_each_suite(name, "podman", |suite| {
        let podman = RootlessPodman::start(suite);
        let run = |options: &[&str]| {
            let command = ["run", "--rm", "--network=none", IMAGE];
            podman.out(&[&["podman"], options, &command, &VARIABLES].concat())
        };
        assert_eq!(run(&[]), "- -");

        // The plugin that nrid launches, from directories of the user.
        let adjust = fs::read(podman.home("../bin/adjust")).unwrap();
        podman.write(".local/share/nri/plugins/10-launched", &adjust);
        let plugin = podman.home(".local/share/nri/plugins/10-launched");
        fs::set_permissions(plugin, fs::Permissions::from_mode(0o755)).unwrap();
        let configure = |create: &str| {
            let text = format!("log = '/home/nri-user/{JOURNAL}'\n{create}");
            podman.write(".config/nri/conf.d/10-launched.conf", text.as_bytes());
        };
        configure(&config("LAUNCHED"));
        // `start` and `delete` pass no HOME: they find this file by the link that nrid made.
        let runtime = format!("[runtime]\npath = {:?}\n", suite.program("runc"));
        podman.write(".config/nri-container-runtime/config.toml", runtime.as_bytes());

        let shown = podman.out(&["nrictl", "install", "podman", "--user"]);
        let drop_in = ".config/containers/containers.conf.d/zz-nri-container-runtime.conf";
        assert!(shown.contains(drop_in) && podman.home(drop_in).exists(), "{shown}");
        podman.out(&["nrictl", "start"]);
        assert_eq!(run(&["--runtime=nri"]), "set -");
        assert_eq!(run(&[]), "- -");
        podman.out(&["nrictl", "install", "podman", "--user", "--default"]);
        assert_eq!(run(&[]), "set -");

        // A plugin that connects to the socket of the user.
        podman.write("external.toml", config("EXTERNAL").as_bytes());
        let socket = podman.out(&[
            "sh",
            "-c",
            "echo $XDG_RUNTIME_DIR/nri-container-runtime/plugins/nri.sock",
        ]);
        let mut external =
            podman.command(&["adjust", "--idx", "20", "--name", "external", "--config"]);
        external.arg("/home/nri-user/external.toml").args(["--socket", &socket]);
        let plugin = UserPlugin(external.spawn().unwrap());
        wait_until("the plugin to connect", || {
            active_plugins(&podman).contains(&"20-external".to_owned()).then_some(())
        });
        assert_eq!(run(&[]), "set set");

        // A restart of nrid keeps a container, and launches plugins again.
        let detach = ["podman", "run", "--detach", "--name=kept", "--network=none", IMAGE];
        let id = podman.out(&[&detach[..], &WAIT].concat());
        podman.out(&["nrictl", "restart"]);
        let status = podman.out(&["nrictl", "status"]);
        assert!(status.contains("containers       1"), "{status}");
        assert!(active_plugins(&podman).contains(&"10-launched".to_owned()));
        podman.out(&["nrictl", "verify", "kept"]);
        let log = podman.out(&["sh", "-c", "cat $XDG_RUNTIME_DIR/nri-container-runtime/nrid.log"]);
        // The mount namespace of the engine belongs to another user namespace than this nrid.
        for problem in ["cannot run the runtime", "no process is left in the mount namespace"] {
            assert!(!log.contains(problem), "{log}");
        }
        let doctor = podman.out(&["nrictl", "doctor"]);
        for part in ["podman: runtime nri in /home/nri-user/", "[rootless-limits]"] {
            assert!(doctor.contains(part), "{part}: {doctor}");
        }
        drop(plugin);

        // What rootless engines cannot do is refused by name. On cgroup v2, the user has no service
        // manager here that would tell which controllers are delegated.
        if !is_cgroup_v2() {
            configure("[create.resources]\npids = 50\n");
            podman.out(&["nrictl", "reload"]);
            let refused = podman.call(&["podman", "run", "--rm", "--network=none", IMAGE, "true"]);
            assert_ne!(refused.code, Some(0));
            let reason = "cgroup controller pids is not delegated to the user of the engine";
            assert!(refused.err().contains(reason), "{}", refused.err());
            assert!(refused.err().contains("(set by plugin \"10-launched\")"), "{}", refused.err());
        }

        let in_use = podman.call(&["nrictl", "uninstall", "podman", "--user"]);
        assert_eq!(in_use.code, Some(4), "{}", in_use.err());
        assert!(in_use.err().contains("1 running container of the wrapper: kept"), "{in_use:?}");
        podman.out(&["podman", "stop", "--time=0", "kept"]);
        podman.out(&["podman", "rm", "kept"]);
        wait_until("the removal", || {
            let events = events(&podman, &id);
            let wanted = ["StopContainer", "RemoveContainer"].map(str::to_owned);
            events.ends_with(&wanted).then_some(())
        });
        podman.out(&["nrictl", "uninstall", "podman", "--user"]);
        assert!(!podman.home(drop_in).exists());
        assert!(!podman.home(".config/nri-container-runtime/installed.json").exists());
        assert_eq!(run(&[]), "- -");
    });
}
