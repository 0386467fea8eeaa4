//! A host for one engine: a node, and what engines need besides.

use super::Suite;
use crate::{Ended, Node, Process, Runtime, call, enter, programs, unified_cgroups, wait_until};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A node whose real runtime is a suite's, its runc unless another is asked for.
#[derive(Debug)]
pub struct Host {
    node: Node,
    suite: Suite,
}

impl Deref for Host {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Host {
    /// A new one, in which nothing runs.
    pub fn new(suite: &Suite) -> Self {
        Self::on(suite, "runc")
    }

    /// The same, with another real runtime of the suite.
    pub fn on(suite: &Suite, runtime: &'static str) -> Self {
        let node = Node::new(&Runtime { name: runtime, path: suite.program(runtime) });
        Self { node, suite: suite.clone() }
    }

    /// The suite.
    pub fn suite(&self) -> &Suite {
        &self.suite
    }

    /// What an engine is given as its runtime: the wrapper with this host's configuration. An
    /// engine hands its runtime almost no environment, and there are as many configurations as
    /// there are tests, so two lines of shell name the file and become the wrapper; what an
    /// administrator would have in /etc. Its base name is `runc`, which is among those that Podman
    /// gives `--log` to.
    pub fn launcher(&self) -> PathBuf {
        let file = self.path("runtime/runc");
        if !file.exists() {
            let line = format!(
                "#!/bin/sh\nexec {} --nri-config {} --nri-runtime {} \"$@\"\n",
                programs::ours("nri-container-runtime").display(),
                self.config().display(),
                self.runtime().path.display()
            );
            fs::create_dir_all(self.path("runtime")).expect("our directory");
            programs::write_program(&file, &line);
        }
        file
    }

    /// Puts its configuration where an administrator would, below a directory that is laid over an
    /// engine's `/etc`, the real runtime named in it.
    pub fn configure_etc(&self, etc: &Path) {
        self.configure(&format!("runtime = {{ path = {:?} }}", self.runtime().path));
        let dir = etc.join("nri-container-runtime");
        fs::create_dir_all(&dir).expect("our directory");
        fs::copy(self.config(), dir.join("config.toml")).expect("our directory");
    }

    /// A program of the suite, where it and our wrapper run.
    pub fn command(&self, program: &str) -> Command {
        enter::command(self.suite.program(program))
    }

    /// Any program, where the engines run: in the same mount namespace.
    pub fn enter(&self, program: &Path) -> Command {
        enter::command(program)
    }

    /// Runs a command, keeping its output in this host.
    pub fn run(&self, command: Command) -> Ended {
        call::run(command, &self.path("calls"))
    }

    /// Waits until `nrid` has seen that a plugin, `NN-name`, has gone.
    pub fn wait_for_plugin_to_go(&self, name: &str) {
        wait_until(format_args!("{name} to be gone"), || {
            let status = self.status().expect("nrid runs");
            let there = |p: &serde_json::Value| p["name"] == name && p["state"] != "closed";
            (!status["plugins"].as_array().expect("a list").iter().any(there)).then_some(())
        });
    }

    /// What the kernel says of a process of a container.
    pub fn look(&self, pid: u32) -> Look {
        Look::at(Process(pid))
    }
}

/// What a container is, seen from outside: by its process.
#[derive(Debug, Clone, Copy)]
pub struct Look(pub Process);

impl Look {
    /// A limit of its cgroup; the controller and the file on cgroup v1, the file on v2.
    ///
    /// # Panics
    /// It cannot be read.
    #[track_caller]
    pub fn limit(self, controller: &str, v1: &str, v2: &str) -> String {
        self.try_limit(controller, v1, v2)
            .unwrap_or_else(|| panic!("no {controller} limit {v1} or {v2}"))
    }

    /// The same; none if the kernel has no such file.
    pub fn try_limit(self, controller: &str, v1: &str, v2: &str) -> Option<String> {
        let file = self.cgroup(controller).join(if unified_cgroups() { v2 } else { v1 });
        Some(fs::read_to_string(&file).ok()?.trim_end().to_owned())
    }

    /// The directory of its cgroup.
    fn cgroup(self, controller: &str) -> PathBuf {
        let text = self.0.cgroups();
        let path = text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let fits = if unified_cgroups() {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|c| c == controller)
            };
            fits.then(|| path.trim_start_matches('/').to_owned())
        });
        let path = path.unwrap_or_else(|| panic!("no {controller} in: {text}"));
        Path::new("/sys/fs/cgroup").join(if unified_cgroups() { "" } else { controller }).join(path)
    }

    /// The process of a container that was started. Runtimes may return before it has become the
    /// container's own program.
    pub fn at(process: Process) -> Self {
        wait_until("the container's own program", || {
            let is_runtime = |program: PathBuf| {
                let program = program.to_string_lossy().into_owned();
                ["runc", "crun"].iter().any(|name| program.contains(name))
            };
            (!process.program().is_some_and(is_runtime)).then_some(())
        });
        Self(process)
    }

    /// The value of a variable in its environment.
    pub fn env(self, name: &str) -> Option<String> {
        let text = fs::read(format!("/proc/{}/environ", self.0.0)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.split('\0').find_map(|v| v.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    /// Soft and hard limit of a resource, by its name in `/proc/PID/limits`: `Max open files`.
    pub fn rlimit(self, name: &str) -> Option<(String, String)> {
        let text = fs::read_to_string(format!("/proc/{}/limits", self.0.0)).unwrap_or_default();
        let values = text.lines().find_map(|line| line.strip_prefix(name))?.to_owned();
        let mut values = values.split_whitespace().map(str::to_owned);
        Some((values.next()?, values.next()?))
    }

    /// What is mounted at a path inside: type and options.
    pub fn mount(self, destination: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/mounts", self.0.0)).unwrap_or_default();
        text.lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|f| f.get(1) == Some(&destination))
            .map(|f| f[2..4].join(" "))
    }

    /// Waits until it has ended.
    pub fn wait_for_end(self) {
        wait_until(format_args!("the end of process {}", self.0.0), || {
            (!self.0.is_alive()).then_some(())
        });
    }
}
