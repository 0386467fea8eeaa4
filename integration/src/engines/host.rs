//! Host for one engine: a node, a suite and a launcher of the wrapper.

use super::Suite;
use crate::{ContainerProcess, Ended, Node, Process, Runtime, call, enter, programs, wait_until};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A node with a real runtime of a suite: runc, or the one that a test selects.
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
    /// Creates a host with the suite's runc as the real runtime.
    pub fn new(suite: &Suite) -> Self {
        Self::with_runtime(suite, "runc")
    }

    /// Creates a host with this real runtime of the suite.
    pub fn with_runtime(suite: &Suite, runtime: &'static str) -> Self {
        let node = Node::new(&Runtime { name: runtime, path: suite.program(runtime) });
        Self { node, suite: suite.clone() }
    }

    /// Returns the suite.
    pub fn suite(&self) -> &Suite {
        &self.suite
    }

    /// Path of the launcher, which engines call as their runtime: a shell script that executes the
    /// wrapper with this host's configuration. The script passes the path of the configuration,
    /// because an engine passes almost no environment to its runtime. The base name of the script
    /// is `runc`, because Podman passes `--log` only to runtimes of certain names.
    pub fn launcher(&self) -> PathBuf {
        let file = self.path("runtime/runc");
        if !file.exists() {
            let line = format!(
                "#!/bin/sh\nexec {} --nri-config {} --nri-runtime {} \"$@\"\n",
                programs::built("nri-container-runtime").display(),
                self.config().display(),
                self.runtime().path.display()
            );
            fs::create_dir_all(self.path("runtime")).expect("the test directory is writable");
            programs::write_program(&file, &line);
        }
        file
    }

    /// Writes the wrapper's configuration, with the path of the real runtime, below `etc`, a
    /// directory that is mounted over an engine's `/etc`.
    pub fn configure_etc(&self, etc: &Path) {
        self.configure(&format!("runtime = {{ path = {:?} }}", self.runtime().path));
        let dir = etc.join("nri-container-runtime");
        fs::create_dir_all(&dir).expect("the test directory is writable");
        fs::copy(self.config(), dir.join("config.toml")).expect("the test directory is writable");
    }

    /// Returns a command for a program of the suite, in the mount namespace of the runtimes.
    pub fn command(&self, program: &str) -> Command {
        enter::command(self.suite.program(program))
    }

    /// Returns a command for any program, in the mount namespace of the runtimes.
    pub fn enter(&self, program: &Path) -> Command {
        enter::command(program)
    }

    /// Runs a command and keeps its output in this host's directory.
    pub fn run(&self, command: Command) -> Ended {
        call::run(command, &self.path("calls"))
    }

    /// Waits until `nrid` has closed the session of a plugin, `NN-name`.
    pub fn wait_for_plugin_to_close(&self, name: &str) {
        wait_until(format_args!("the end of the session of {name}"), || {
            let status = self.status().expect("nrid runs");
            let is_open = |p: &serde_json::Value| p["name"] == name && p["state"] != "closed";
            (!status["plugins"].as_array().expect("plugins is a list").iter().any(is_open))
                .then_some(())
        });
    }

    /// The init process of a container, by its process id.
    pub fn process(&self, pid: u32) -> ContainerProcess {
        ContainerProcess::of(Process(pid))
    }
}
