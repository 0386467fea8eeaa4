//! Fixture of one test: configuration, state directory, plugins, the runtime's root and bundles.

use crate::{
    Bundle, Ended, External, Journal, Process, Program, Runtime, call, cgroups_of, enter,
    machine::{cgroup_driver, cgroups_path},
    programs,
    wait::is_slow,
    wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};
use tempfile::TempDir;

/// The private directories of one test, and its containers and `nrid`. Dropping this value deletes
/// the containers and stops `nrid`.
#[derive(Debug)]
pub struct Node {
    dir: TempDir,
    state_dir: PathBuf,
    /// Directory of the programs under test.
    programs: PathBuf,
    runtime: Runtime,
    prefix: String,
}

impl Node {
    /// Creates a node without containers and without a running `nrid`.
    pub fn new(runtime: &Runtime) -> Self {
        Self::with_state_dir(runtime, None)
    }

    /// Creates a node with copies of the programs in `from`, which [`Node::upgrade`] can replace.
    pub fn with_programs(runtime: &Runtime, from: &Path) -> Self {
        let mut node = Self::new(runtime);
        node.programs = node.path("bin");
        fs::create_dir(&node.programs).expect("the test directory is writable");
        node.upgrade(from);
        node
    }

    /// Creates a node with this state directory, or with one in the node's directory.
    pub fn with_state_dir(runtime: &Runtime, state_dir: Option<&Path>) -> Self {
        static NODES: AtomicU32 = AtomicU32::new(0);
        let n = NODES.fetch_add(1, Ordering::Relaxed);
        // A short path, because the path of a socket is limited to 107 bytes.
        let dir = tempfile::Builder::new()
            .prefix("nri-")
            .tempdir()
            .expect("a temporary directory can be created");
        // Without the last letter, ids of node 10 would also start with the prefix of node 1.
        let prefix = format!("nri{}x{n}n", std::process::id());
        let state_dir = state_dir.map_or_else(|| dir.path().join("s"), Path::to_owned);
        let (programs, runtime) = (programs::build_dir(), runtime.clone());
        let node = Self { dir, state_dir, programs, runtime, prefix };
        for name in ["plugins", "conf.d", "bundles", "calls"] {
            fs::create_dir(node.path(name)).expect("the test directory is writable");
        }
        node.configure("");
        node
    }

    /// Writes the configuration: the lines `more`, then the paths of this node.
    pub fn configure(&self, more: &str) {
        // Longer than the defaults: many tests run at once on few cores, and some virtual machines
        // are slow.
        let mut timeouts = vec![("plugin_request_timeout", "20s")];
        if is_slow() {
            timeouts.extend([("plugin_registration_timeout", "60s"), ("start_timeout", "120s")]);
        }
        let timeouts = timeouts.iter().filter(|(key, _)| !more.contains(key));
        let timeouts: String =
            timeouts.map(|(key, value)| format!("{key} = '{value}'\n")).collect();
        let text = format!(
            "{timeouts}{more}\nstate_dir = {:?}\nplugin_path = {:?}\nplugin_config_path = {:?}\n",
            self.state_dir(),
            self.path("plugins"),
            self.path("conf.d")
        );
        fs::write(self.config(), text).expect("the test directory is writable");
    }

    /// Path of a file in the node's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Path of the configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// State directory of the node's `nrid`.
    pub fn state_dir(&self) -> PathBuf {
        self.state_dir.clone()
    }

    /// Root directory of the runtime (`--root`).
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// Returns the real runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Path of a program under test.
    pub fn program(&self, name: &str) -> PathBuf {
        programs::existing(&self.programs.join(name))
    }

    /// Replaces the programs of a node made by [`Node::with_programs`] with those in `from`. Each
    /// file is renamed over the old one, as a package manager does, so that running processes
    /// continue to execute the old programs.
    pub fn upgrade(&self, from: &Path) {
        self.replace(from, |_| true);
    }

    /// As [`Node::upgrade`], but leaves the file of `nrid`, so that callers of another version do
    /// not restart it.
    pub fn upgrade_callers(&self, from: &Path) {
        self.replace(from, |name| name != "nrid");
    }

    fn replace(&self, from: &Path, is_replaced: impl Fn(&str) -> bool) {
        for name in programs::NAMES.into_iter().filter(|name| is_replaced(name)) {
            let new = self.programs.join(format!("{name}.new"));
            let program = from.join(name);
            if name == programs::WASM_HOST && !program.exists() {
                // Releases before it have none.
                fs::remove_file(self.programs.join(name)).ok();
                continue;
            }
            let program = programs::existing(&program);
            // A hard link is cheaper, but works only within one file system.
            if fs::hard_link(&program, &new).is_err() {
                programs::copy_program(&program, &new);
            }
            fs::rename(&new, self.programs.join(name)).expect("the test directory is writable");
        }
    }

    /// Returns a container id that is unique on this machine. The ids and cgroups of a node start
    /// with [`Node::prefix`].
    pub fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Prefix of all container ids of this node.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Describes a bundle for a container id; [`Bundle::make`] creates it.
    pub fn bundle(&self, id: &str) -> Bundle {
        let cgroup = cgroups_path(&self.prefix, id);
        Bundle::new(&self.path("bundles"), id).root(&self.path("rootfs")).cgroup(&cgroup)
    }

    /// Returns a command of the wrapper with its options and the runtime's global options.
    pub fn wrapper(&self) -> Command {
        self.wrapper_of(&self.runtime)
    }

    /// Returns a command of the wrapper like [`Node::wrapper`], with another real runtime.
    pub fn wrapper_of(&self, runtime: &Runtime) -> Command {
        self.wrapper_at(&self.program("nri-container-runtime"), runtime)
    }

    /// Returns a command of the wrapper at another path, such as the copy made by
    /// [`Node::install`].
    pub fn wrapper_at(&self, wrapper: &Path, runtime: &Runtime) -> Command {
        let mut command = enter::command(wrapper);
        command.arg("--nri-config").arg(self.config()).arg("--nri-runtime").arg(&runtime.path);
        command.args(cgroup_driver()).arg("--root").arg(self.root());
        command
    }

    /// Installs the programs under test in a directory of this node, where a test can damage them:
    /// a copy of the wrapper, and links to the others. Returns the directory.
    pub fn install(&self) -> PathBuf {
        let dir = self.path("bin");
        fs::create_dir(&dir).expect("the test directory is writable");
        // A copy: the wrapper resolves links to itself and looks for the other programs beside the
        // file.
        let wrapper = "nri-container-runtime";
        programs::copy_program(&programs::built(wrapper), &dir.join(wrapper));
        for name in programs::NAMES.into_iter().filter(|name| *name != wrapper) {
            symlink(programs::built(name), dir.join(name)).expect("the test directory is writable");
        }
        dir
    }

    /// Calls the wrapper.
    pub fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.wrapper();
        command.args(arguments);
        self.run(command)
    }

    /// Calls `create --bundle BUNDLE ID`.
    pub fn create(&self, bundle: &Bundle, id: &str) -> Ended {
        let mut command = self.wrapper();
        command.args(["create", "--bundle"]).arg(bundle.dir()).arg(id);
        self.run(command)
    }

    /// Runs a command and keeps its output in the node's directory.
    pub fn run(&self, command: Command) -> Ended {
        call::run(command, &self.path("calls"))
    }

    /// Calls the bare runtime.
    pub fn bare(&self, arguments: &[&str]) -> Ended {
        let mut command = self.runtime.command(&self.root());
        command.args(arguments);
        self.run(command)
    }

    /// Calls the runtime's `state` for a container; `None` if it fails.
    pub fn state(&self, id: &str) -> Option<Value> {
        let state = self.bare(&["state", id]);
        if state.code == Some(0) { serde_json::from_str(&state.out()).ok() } else { None }
    }

    /// Calls `nrictl`.
    pub fn ctl(&self, arguments: &[&str]) -> Ended {
        let mut command = enter::command(self.program("nrictl"));
        command.arg("--config").arg(self.config()).args(arguments);
        self.run(command)
    }

    /// Returns the status of `nrictl status --json`; `None` if no `nrid` runs.
    pub fn status(&self) -> Option<Value> {
        let value: Value = serde_json::from_str(&self.ctl(&["status", "--json"]).out())
            .expect("nrictl prints JSON");
        (value["running"] == true).then(|| value["status"].clone())
    }

    /// Returns the running `nrid`, if any.
    pub fn nrid(&self) -> Option<Process> {
        let pid = self.status()?["pid"].as_u64().expect("pid is a number");
        Some(Process(u32::try_from(pid).expect("pid is a number")))
    }

    /// Kills the running `nrid` and waits for its end.
    ///
    /// # Panics
    /// No `nrid` runs.
    pub fn kill_nrid(&self) {
        let nrid = self.nrid().expect("nrid runs");
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
    }

    /// Finds all `nrid` processes with this node's state directory in `/proc`. Forked children that
    /// have not executed a runtime yet still have the command line of `nrid`, and are excluded.
    pub fn nrids(&self) -> Vec<Process> {
        let program = programs::built("nrid");
        let dir = self.state_dir().into_os_string().into_encoded_bytes();
        let is_of_node = |p: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", p.0)).unwrap_or_default();
            p.program().is_some_and(|exe| exe == program)
                && line.split(|b| *b == 0).any(|a| a == dir)
        };
        let all: Vec<Process> = Process::all().into_iter().filter(is_of_node).collect();
        let is_child =
            |p: &Process| p.parent().is_none_or(|parent| all.iter().any(|other| other.0 == parent));
        all.iter().copied().filter(|p| !is_child(p)).collect()
    }

    /// Returns the log of `nrid`.
    pub fn log(&self) -> String {
        fs::read_to_string(self.state_dir().join("nrid.log")).unwrap_or_default()
    }

    /// Paths of `nrid`'s records in the directory `containers`, `pods` or `exec`. Temporary files
    /// are excluded: `nrid` may be writing a record even after the wrapper has returned.
    pub fn records(&self, kind: &str) -> Vec<PathBuf> {
        let dir = self.state_dir().join(kind);
        let files = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        files
            .flatten()
            .map(|file| file.path())
            .filter(|p| p.extension().is_some_and(|e| e == "json"))
            .collect()
    }

    /// Bundle of `nrid` that the runtime got for a container in place of the engine's; `None` if
    /// there is none. The bundle of a deleted container may still be there; the last one counts.
    pub fn own_bundle(&self, id: &str) -> Option<PathBuf> {
        let is_of = |name: &str| name.rsplitn(3, '-').nth(2) == Some(id);
        let made = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let dirs = fs::read_dir(self.state_dir().join("bundles")).into_iter().flatten().flatten();
        dirs.filter(|dir| dir.file_name().to_str().is_some_and(is_of))
            .map(|dir| dir.path())
            .max_by_key(made)
    }

    /// Parses the `config.json` that the runtime got for a container in place of the engine's.
    pub fn adjusted(&self, id: &str) -> Value {
        let dir = self.own_bundle(id).unwrap_or_else(|| panic!("{id} has no bundle of nrid"));
        let file = dir.join("config.json");
        let text = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    /// Installs a plugin as `NN-name`, which `nrid` launches.
    pub fn launch(&self, name: &str, program: &Program, config: &str) -> Journal {
        let journal = self.path(&format!("{name}.journal"));
        fs::write(
            self.path("conf.d").join(format!("{name}.conf")),
            program.configuration(config, &journal),
        )
        .expect("the test directory is writable");
        symlink(program.path(), self.path("plugins").join(name))
            .expect("the test directory is writable");
        Journal::new(&journal)
    }

    /// Starts an external plugin, which connects to the running `nrid`, and waits until it is
    /// synchronized.
    pub fn connect(&self, name: &str, program: &Program, config: &str) -> External {
        self.connect_version("", name, program, config)
    }

    /// Like [`Node::connect`], for a plugin that replaces another one of its name: `version` is a
    /// part of the names of its files.
    pub fn connect_version(
        &self,
        version: &str,
        name: &str,
        program: &Program,
        config: &str,
    ) -> External {
        let socket = self.state_dir().join("nri.sock");
        External::start(
            program,
            name,
            &[],
            config,
            &socket,
            &self.path(&format!("{name}{version}")),
        )
    }

    /// Ids of the node's containers that the runtime knows.
    fn containers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).into_iter().flatten();
        entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|n| n.starts_with(&self.prefix))
            .collect()
    }

    /// Deletes all containers, stops `nrid` and removes cgroups.
    pub fn clean_up(&self) {
        for id in self.containers() {
            self.bare(&["delete", "--force", &id]);
        }
        self.ctl(&["stop"]);
        // Remove cgroups that tests have created themselves or that a killed runtime has left.
        for cgroup in cgroups_of(&self.prefix).iter().rev() {
            let _ = fs::remove_dir(cgroup);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(30).collect();
            eprintln!(
                "-- end of nrid.log:\n{}",
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
        self.clean_up();
    }
}
