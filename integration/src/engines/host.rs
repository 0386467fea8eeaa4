//! A host for one engine: a node, and what engines need besides.

use super::Suite;
use crate::{ContainerProcess, Ended, Node, Process, Runtime, call, enter, programs, wait_until};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A node whose real runtime is a suite's: runc, or another one on request.
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

    /// Puts its configuration where an administrator would, below a directory that is mounted over
    /// an engine's `/etc`, the real runtime named in it.
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

    /// A process of a container.
    pub fn process(&self, pid: u32) -> ContainerProcess {
        ContainerProcess::of(Process(pid))
    }
}
