//! Rootless Podman and Docker: a user's `nrid`, configuration and plugins.

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
fn events(engine: &RootlessEngine, id: &str) -> Vec<String> {
    let journal = fs::read_to_string(engine.home(JOURNAL)).unwrap_or_default();
    let entries = journal.lines().filter_map(|line| serde_json::from_str(line).ok());
    let of_container = entries.filter(|entry: &serde_json::Value| entry["container"] == id);
    of_container.filter_map(|entry| entry["event"].as_str().map(str::to_owned)).collect()
}

fn config(variable: &str) -> String {
    format!("[create]\nenv = {{ set = {{ {variable} = \"set\" }} }}\n")
}

/// The plugins that are active, from `nrictl status`.
fn active_plugins(engine: &RootlessEngine) -> Vec<String> {
    let status = engine.out(&["nrictl", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("status is JSON");
    let plugins = status["status"]["plugins"].as_array().into_iter().flatten();
    let active = plugins.filter(|plugin| plugin["state"] == "active");
    active.filter_map(|plugin| plugin["name"].as_str().map(str::to_owned)).collect()
}

/// Skips a test on machines where users cannot run engines.
fn for_each_rootless(name: &'static str, program: &str, test: impl Fn(&Suite, RootlessEngine)) {
    let test_name = format!("rootless {name}");
    if find_program("newuidmap").is_none() {
        let reason = "no newuidmap (uidmap); integration/engines/setup.sh installs it";
        return skip(&test_name, reason);
    }
    if let Some(reason) = lack_of_user_namespaces() {
        let reason = format!("users cannot make user namespaces here: {reason}");
        return limitation(&test_name, &reason);
    }
    for_each_suite(&test_name, program, |suite| test(suite, RootlessEngine::start(suite, name)));
}

/// What the user's engine prints for the variables of the plugins.
fn variables(engine: &RootlessEngine, options: &[&str]) -> String {
    let command = [&["run", "--rm", "--network=none"], options, &[IMAGE], &VARIABLES].concat();
    engine.client(&command)
}

/// Tests an engine from the installation to the removal of the wrapper. `file` is what the
/// installation creates, `start` starts `nrid` before the first container.
fn installed_and_removed(suite: &Suite, engine: &RootlessEngine, file: &str, start: bool) {
    let run = |options: &[&str]| variables(engine, options);
    assert_eq!(run(&[]), "- -");

    // The plugin that nrid launches, from directories of the user.
    let adjust = fs::read(engine.home("bin/adjust")).unwrap();
    engine.write(".local/share/nri/plugins/10-launched", &adjust);
    let plugin = engine.home(".local/share/nri/plugins/10-launched");
    fs::set_permissions(plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let configure = |create: &str| {
        let text = format!("log = '/home/nri-user/{JOURNAL}'\n{create}");
        engine.write(".config/nri/conf.d/10-launched.conf", text.as_bytes());
    };
    configure(&config("LAUNCHED"));
    // Podman passes no HOME to `start` and `delete`: they find this file by the link of nrid.
    let runtime = format!("[runtime]\npath = {:?}\n", suite.program("runc"));
    engine.write(".config/nri-container-runtime/config.toml", runtime.as_bytes());

    let install = |options: &[&str]| {
        let shown = engine.out(&[&["nrictl", "install", engine.name, "--user"], options].concat());
        assert!(shown.contains(file) && engine.home(file).exists(), "{shown}");
        // The version is that of the user's PATH: no tested one has NRI.
        assert!(!shown.contains("NRI of its own"), "{shown}");
        engine.reload();
    };
    install(&[]);
    if start {
        engine.out(&["nrictl", "start"]);
    }
    wait_until("the runtime nri", || {
        let created =
            [engine.name, "run", "--rm", "--network=none", "--runtime=nri", IMAGE, "true"];
        (engine.call(&created).code == Some(0)).then_some(())
    });
    assert_eq!(run(&["--runtime=nri"]), "set -");
    assert_eq!(run(&[]), "- -");
    install(&["--default"]);
    wait_until("the default runtime", || (run(&[]) == "set -").then_some(()));

    // A plugin that connects to the socket of the user.
    engine.write("external.toml", config("EXTERNAL").as_bytes());
    let socket =
        engine.out(&["sh", "-c", "echo $XDG_RUNTIME_DIR/nri-container-runtime/plugins/nri.sock"]);
    let mut external = engine.command(&["adjust", "--idx", "20", "--name", "external", "--config"]);
    external.arg("/home/nri-user/external.toml").args(["--socket", &socket]);
    let plugin = UserPlugin(external.spawn().unwrap());
    wait_until("the plugin to connect", || {
        active_plugins(engine).contains(&"20-external".to_owned()).then_some(())
    });
    assert_eq!(run(&[]), "set set");

    // A restart of nrid keeps a container, and launches plugins again.
    let detach = ["run", "--detach", "--name=kept", "--network=none", IMAGE];
    let id = engine.client(&[&detach[..], &WAIT].concat());
    engine.out(&["nrictl", "restart"]);
    let status = engine.out(&["nrictl", "status"]);
    assert!(status.contains("containers       1"), "{status}");
    assert!(active_plugins(engine).contains(&"10-launched".to_owned()));
    engine.out(&["nrictl", "verify", "kept"]);
    // Only the containers of the user's own engine are listed.
    let detach = ["run", "--detach", "--name=other", "--network=none", "--runtime=runc", IMAGE];
    engine.client(&[&detach[..], &WAIT].concat());
    let listed = engine.out(&["nrictl", "containers", "--all-runtimes", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("the list is JSON");
    let listed = listed["containers"].as_array().into_iter().flatten();
    let listed: Vec<_> = listed.map(|c| [&c["name"], &c["engine"], &c["wrapper"]]).collect();
    assert_eq!(listed, [["kept", engine.name, "yes"], ["other", engine.name, "no"]]);
    engine.client(&["rm", "--force", "other"]);
    let log = engine.out(&["sh", "-c", "cat $XDG_RUNTIME_DIR/nri-container-runtime/nrid.log"]);
    // The mount namespace of the engine may belong to another user namespace than this nrid.
    for problem in ["cannot run the runtime", "no process is left in the mount namespace"] {
        assert!(!log.contains(problem), "{log}");
    }
    let doctor = engine.out(&["nrictl", "doctor"]);
    let has_runtime =
        |line: &str| line.contains(engine.name) && line.contains("runtime nri in /home/nri-user/");
    assert!(doctor.lines().any(has_runtime), "{doctor}");
    assert!(doctor.contains("[rootless-limits]"), "{doctor}");
    assert!(!doctor.contains("[engine-other-files]"), "{doctor}");
    drop(plugin);

    // What rootless engines cannot do is refused by name. On cgroup v2, the user has no service
    // manager here that would tell which controllers are delegated.
    if !is_cgroup_v2() {
        configure("[create.resources]\npids = 50\n");
        engine.out(&["nrictl", "reload"]);
        let refused = engine.call(&[engine.name, "run", "--rm", "--network=none", IMAGE, "true"]);
        assert_ne!(refused.code, Some(0));
        let reason = "cgroup controller pids is not delegated to the user of the engine";
        assert!(refused.err().contains(reason), "{}", refused.err());
        assert!(refused.err().contains("(set by plugin \"10-launched\")"), "{}", refused.err());
    }

    let in_use = engine.call(&["nrictl", "uninstall", engine.name, "--user"]);
    assert_eq!(in_use.code, Some(4), "{}", in_use.err());
    assert!(in_use.err().contains("1 running container of the wrapper: kept"), "{in_use:?}");
    engine.client(&["stop", "--time=0", "kept"]);
    engine.client(&["rm", "kept"]);
    wait_until("the removal", || {
        let events = events(engine, &id);
        let wanted = ["StopContainer", "RemoveContainer"].map(str::to_owned);
        events.ends_with(&wanted).then_some(())
    });
    engine.out(&["nrictl", "uninstall", engine.name, "--user"]);
    assert!(!engine.home(file).exists());
    assert!(!engine.home(".config/nri-container-runtime/installed.json").exists());
    engine.restart();
    assert_eq!(run(&[]), "- -");
}

#[test]
fn rootless_podman_has_an_nrid_of_its_user() {
    for_each_rootless("podman", "podman", |suite, engine| {
        let file = ".config/containers/containers.conf.d/zz-nri-container-runtime.conf";
        installed_and_removed(suite, &engine, file, true);
    });
}

/// `nrid` runs in the namespaces of Docker, whose `/run` and `/etc` belong to the user.
#[test]
fn rootless_docker_has_an_nrid_of_its_user() {
    for_each_rootless("docker", "rootlesskit", |suite, engine| {
        installed_and_removed(suite, &engine, ".config/docker/daemon.json", false);
    });
}
