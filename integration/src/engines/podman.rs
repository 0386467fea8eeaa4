//! Podman: no daemon, but storage, configuration and namespaces that its calls share.

use super::{Host, Look, Suite, suite::engine_script};
use crate::{Ended, Process, programs::ours};
use serde_json::Value;
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A podman of a test's own, and its host. When it is dropped, its pods and containers are removed.
#[derive(Debug)]
pub struct Podman {
    host: Host,
}

impl Deref for Podman {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Podman {
    /// Its runtime is the wrapper, as `nri`, whose name it knows as one that takes `--log`; the
    /// suite's own is `runc`.
    pub fn start(suite: &Suite) -> Self {
        Self::start_with(suite, true)
    }

    /// The same; `json` says whether it gives its runtime `--log`.
    pub fn start_with(suite: &Suite, json: bool) -> Self {
        Self::place(Host::new(suite), json, "")
    }

    /// The same; `engine` is more of the section `[engine]` of its configuration.
    pub fn start_configured(suite: &Suite, engine: &str) -> Self {
        Self::place(Host::new(suite), true, engine)
    }

    /// The same, with crun as the real runtime, which it also has as `crun`.
    pub fn start_on_crun(suite: &Suite) -> Self {
        Self::place(Host::on(suite, "crun"), true, "")
    }

    fn place(host: Host, json: bool, engine: &str) -> Self {
        let new = Self { host };
        fs::create_dir(new.dir()).expect("our directory");
        let more = if json { ", \"nri\"" } else { "" };
        let (ours, bare) = (new.launcher(), &new.runtime());
        let engine = format!(
            "{engine}\nruntime = \"nri\"\nruntime_supports_json = [\"crun\", \"runc\"{more}]\n[engine.runtimes]\nnri = [{ours:?}]\n{} = [{:?}]\n",
            bare.name, bare.path
        );
        fs::write(new.dir().join("engine.conf"), engine).expect("our directory");
        new.begin();
        new
    }

    /// With an `/etc` of its own, in which there is this host's configuration of the wrapper.
    pub fn start_in_etc(suite: &Suite) -> Self {
        Self::place_in_etc(suite, false)
    }

    /// The same, with the program of infra containers where the distribution puts it, in `/usr`.
    pub fn start_as_installed(suite: &Suite) -> Self {
        Self::place_in_etc(suite, true)
    }

    fn place_in_etc(suite: &Suite, usr: bool) -> Self {
        let new = Self { host: Host::new(suite) };
        fs::create_dir(new.dir()).expect("our directory");
        if usr {
            fs::create_dir(new.dir().join("usr")).expect("our directory");
        }
        let runc = suite.program("runc");
        let engine = format!("runtime = \"runc\"\n[engine.runtimes]\nrunc = [{runc:?}]\n");
        fs::write(new.dir().join("engine.conf"), engine).expect("our directory");
        new.host.configure_etc(&new.etc());
        new.begin();
        new
    }

    fn begin(&self) {
        let mut command = self.script("start");
        command.arg(&self.suite().name);
        self.run(command).success();
    }

    /// What is laid over its `/etc`.
    pub fn etc(&self) -> PathBuf {
        self.dir().join("etc")
    }

    /// Calls `nrictl` where podman is, without telling it a configuration.
    pub fn nrictl(&self, arguments: &[&str]) -> Ended {
        self.inside(&ours("nrictl"), arguments)
    }

    /// Calls a program where podman is.
    pub fn inside(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = self.script("enter");
        command.arg(program).args(arguments);
        self.run(command)
    }

    /// A call of `podman`, to be made.
    pub fn client(&self, arguments: &[&str]) -> Command {
        let mut command = self.script("client");
        command.args(arguments);
        command
    }

    /// Calls `podman`.
    pub fn podman(&self, arguments: &[&str]) -> Ended {
        self.run(self.client(arguments))
    }

    /// Calls `podman`; its stdout without the last line feed.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn out(&self, arguments: &[&str]) -> String {
        self.podman(arguments).success().out().trim_end().to_owned()
    }

    /// `podman run --detach` with a name; returns the id.
    #[track_caller]
    pub fn run_detached(&self, name: &str, arguments: &[&str]) -> String {
        self.out(&[&["run", "--detach", "--name", name], arguments].concat())
    }

    /// `podman inspect`
    #[track_caller]
    pub fn inspect(&self, container: &str) -> Value {
        let text = self.out(&["inspect", container]);
        let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        all[0].take()
    }

    /// What the kernel says of a running container's first process.
    #[track_caller]
    pub fn look_at(&self, container: &str) -> Look {
        let pid = self.inspect(container)["State"]["Pid"].as_u64().expect("a process id");
        Look::at(Process(u32::try_from(pid).expect("a process id")))
    }

    /// Its directory.
    pub fn dir(&self) -> PathBuf {
        self.path("podman")
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = self.enter(Path::new(&engine_script("podman.sh")));
        command.arg(verb).arg(self.dir());
        command
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.run(self.script("stop"));
    }
}
