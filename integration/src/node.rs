//! What each test has to itself: configuration, state directory, plugins, the runtime's root,
//! bundles.

use crate::{
    Bundle, Ended, External, Journal, Process, Program, Runtime, call, cgroups_of, enter,
    machine::{cgroup_driver, cgroups_path},
    programs,
    wait::slow,
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

/// Directories of one test, and what runs in them. When it is dropped, containers are deleted and
/// `nrid` is stopped.
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
    /// Makes a node, in which nothing runs.
    pub fn new(runtime: &Runtime) -> Self {
        Self::with_state_dir(runtime, None)
    }

    /// A node that calls copies of the programs in `from`, which [`Node::upgrade`] can replace.
    pub fn with_programs(runtime: &Runtime, from: &Path) -> Self {
        let mut node = Self::new(runtime);
        node.programs = node.path("bin");
        fs::create_dir(&node.programs).expect("the test directory is writable");
        node.upgrade(from);
        node
    }

    /// The same with a state directory elsewhere.
    pub fn with_state_dir(runtime: &Runtime, state_dir: Option<&Path>) -> Self {
        static NODES: AtomicU32 = AtomicU32::new(0);
        let n = NODES.fetch_add(1, Ordering::Relaxed);
        // A short path: names of sockets have 107 bytes.
        let dir = tempfile::Builder::new().prefix("nri-").tempdir().expect("a temporary directory");
        // The last letter: no prefix begins with another one.
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

    /// Writes the configuration: these lines, then the paths of this node.
    pub fn configure(&self, more: &str) {
        // Many tests run at once on few cores: a plugin that is slow for that reason must not fail
        // a test. In some guests everything is slow.
        let mut patient = vec![("plugin_request_timeout", "20s")];
        if slow() {
            patient.extend([("plugin_registration_timeout", "60s"), ("start_timeout", "120s")]);
        }
        let patient = patient.iter().filter(|(key, _)| !more.contains(key));
        let patient: String = patient.map(|(key, value)| format!("{key} = '{value}'\n")).collect();
        let text = format!(
            "{patient}{more}\nstate_dir = {:?}\nplugin_path = {:?}\nplugin_config_path = {:?}\n",
            self.state_dir(),
            self.path("plugins"),
            self.path("conf.d")
        );
        fs::write(self.config(), text).expect("the test directory is writable");
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// The state directory of its `nrid`.
    pub fn state_dir(&self) -> PathBuf {
        self.state_dir.clone()
    }

    /// `--root` of the runtime.
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// A program under test.
    pub fn program(&self, name: &str) -> PathBuf {
        programs::existing(&self.programs.join(name))
    }

    /// Replaces the programs of [`Node::with_programs`] by those in `from`, as a package manager
    /// does: each by a rename. What runs goes on with the old ones.
    pub fn upgrade(&self, from: &Path) {
        for name in programs::NAMES {
            let new = self.programs.join(format!("{name}.new"));
            let program = programs::existing(&from.join(name));
            // A link is cheaper, where it is the same file system.
            if fs::hard_link(&program, &new).is_err() {
                programs::copy_program(&program, &new);
            }
            fs::rename(&new, self.programs.join(name)).expect("the test directory is writable");
        }
    }

    /// A container id that is unique on this machine. All ids of one node, and its cgroups, begin
    /// with [`Node::prefix`].
    pub fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The prefix of all ids of this node.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A bundle, to be made, for a container id.
    pub fn bundle(&self, id: &str) -> Bundle {
        let cgroup = cgroups_path(&self.prefix, id);
        Bundle::new(&self.path("bundles"), id).root(&self.path("rootfs")).cgroup(&cgroup)
    }

    /// A call of the wrapper, up to the runtime's global options.
    pub fn wrapper(&self) -> Command {
        self.wrapper_of(&self.runtime)
    }

    /// The same with another program as the real runtime, that has the same containers.
    pub fn wrapper_of(&self, runtime: &Runtime) -> Command {
        self.wrapper_at(&self.program("nri-container-runtime"), runtime)
    }

    /// The same with the wrapper at another path, such as one of [`Node::install`].
    pub fn wrapper_at(&self, wrapper: &Path, runtime: &Runtime) -> Command {
        let mut command = enter::command(wrapper);
        command.arg("--nri-config").arg(self.config()).arg("--nri-runtime").arg(&runtime.path);
        command.args(cgroup_driver()).arg("--root").arg(self.root());
        command
    }

    /// Our programs in a directory of this node, where they can be broken: a wrapper of its own,
    /// and links to the others.
    pub fn install(&self) -> PathBuf {
        let dir = self.path("bin");
        fs::create_dir(&dir).expect("the test directory is writable");
        // It finds the others beside itself, wherever links to it are.
        let wrapper = "nri-container-runtime";
        programs::copy_program(&programs::ours(wrapper), &dir.join(wrapper));
        for name in programs::NAMES.into_iter().filter(|name| *name != wrapper) {
            symlink(programs::ours(name), dir.join(name)).expect("the test directory is writable");
        }
        dir
    }

    /// Calls the wrapper.
    pub fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.wrapper();
        command.args(arguments);
        self.run(command)
    }

    /// `create --bundle B ID`
    pub fn create(&self, bundle: &Bundle, id: &str) -> Ended {
        let mut command = self.wrapper();
        command.args(["create", "--bundle"]).arg(bundle.dir()).arg(id);
        self.run(command)
    }

    /// Runs any command, keeping its output in this node.
    pub fn run(&self, command: Command) -> Ended {
        call::run(command, &self.path("calls"))
    }

    /// Calls the bare runtime.
    pub fn bare(&self, arguments: &[&str]) -> Ended {
        let mut command = self.runtime.command(&self.root());
        command.args(arguments);
        self.run(command)
    }

    /// The runtime's `state` of a container; none if it does not know it.
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

    /// `nrictl status --json`, if an `nrid` runs.
    pub fn status(&self) -> Option<Value> {
        let value: Value = serde_json::from_str(&self.ctl(&["status", "--json"]).out())
            .expect("nrictl prints JSON");
        (value["running"] == true).then(|| value["status"].clone())
    }

    /// The `nrid` that runs, if one does.
    pub fn nrid(&self) -> Option<Process> {
        let pid = self.status()?["pid"].as_u64().expect("a pid");
        Some(Process(u32::try_from(pid).expect("a pid")))
    }

    /// Kills the `nrid` that runs, and waits for its end.
    ///
    /// # Panics
    /// None runs.
    pub fn kill_nrid(&self) {
        let nrid = self.nrid().expect("nrid runs");
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
    }

    /// All `nrid` processes of this node's state directory, as the kernel shows them; not the
    /// copies of one that it forks to start a runtime, which have its command line for a moment.
    pub fn nrids(&self) -> Vec<Process> {
        let program = programs::ours("nrid");
        let dir = self.state_dir().into_os_string().into_encoded_bytes();
        let mine = |p: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", p.0)).unwrap_or_default();
            p.program().is_some_and(|exe| exe == program)
                && line.split(|b| *b == 0).any(|a| a == dir)
        };
        let all: Vec<Process> = Process::all().into_iter().filter(mine).collect();
        let copy =
            |p: &Process| p.parent().is_none_or(|parent| all.iter().any(|other| other.0 == parent));
        all.iter().copied().filter(|p| !copy(p)).collect()
    }

    /// The log of `nrid`.
    pub fn log(&self) -> String {
        fs::read_to_string(self.state_dir().join("nrid.log")).unwrap_or_default()
    }

    /// The files of `nrid`'s records in `containers`, `pods` or `exec`; not one that is being
    /// written, as may be after the wrapper has returned too.
    pub fn records(&self, of: &str) -> Vec<PathBuf> {
        let dir = self.state_dir().join(of);
        let files = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        files
            .flatten()
            .map(|file| file.path())
            .filter(|p| p.extension().is_some_and(|e| e == "json"))
            .collect()
    }

    /// Installs a plugin that `nrid` is to launch, as `NN-name`.
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

    /// Starts a plugin that connects by itself, to the `nrid` that runs, and waits until it is
    /// synchronized.
    pub fn connect(&self, name: &str, program: &Program, config: &str) -> External {
        External::start(program, name, config, &self.state_dir().join("nri.sock"), self.dir.path())
    }

    fn containers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).into_iter().flatten();
        entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .filter(|n| n.starts_with(&self.prefix))
            .collect()
    }

    /// Ends all that runs here.
    pub fn clean_up(&self) {
        for id in self.containers() {
            self.bare(&["delete", "--force", &id]);
        }
        self.ctl(&["stop"]);
        // What tests made by hand, and what a runtime that was killed left.
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
