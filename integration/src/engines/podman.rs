//! Podman: no daemon, but storage, configuration and namespaces that its calls share.

use super::{Engine, Host, Suite, suite::engine_script};
use crate::{Ended, programs::ours};
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
    /// Starts it; `json` says whether it knows `nri` as a runtime that takes `--log`.
    pub fn start_with(suite: &Suite, json: bool) -> Self {
        Self::place(Host::new(suite), json, "")
    }

    /// The same; `engine` is more of the section `[engine]` of its configuration.
    pub fn start_configured(suite: &Suite, engine: &str) -> Self {
        Self::place(Host::new(suite), true, engine)
    }

    fn place(host: Host, json: bool, engine: &str) -> Self {
        let new = Self { host };
        fs::create_dir(new.dir()).expect("our directory");
        let more = if json { ", \"nri\"" } else { "" };
        let (ours, bare) = (new.launcher(), &new.runtime());
        let engine = format!(
            "{engine}\nruntime = \"nri\"\nruntime_supports_json = [\"crun\", \"runc\"{more}]\n\
             [engine.runtimes]\nnri = [{ours:?}]\n{} = [{:?}]\n",
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

    /// Directory that is mounted over its `/etc`.
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

impl Engine for Podman {
    const NAME: &'static str = "podman";
    const PROGRAM: &'static str = "podman";
    const RUNTIME_FAILED: i32 = 126;

    fn start_on(suite: &Suite, runtime: &'static str) -> Self {
        Self::place(Host::on(suite, runtime), true, "")
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = self.script("client");
        command.args(arguments);
        command
    }

    fn run_with(&self, runtime: &str, arguments: &[&str]) -> Ended {
        let run = ["--runtime", runtime, "run", "--rm", "--network=none"];
        self.call_client(&[&run, arguments].concat())
    }

    fn error(ended: &Ended, runtime: &str) -> String {
        ended.err().replace(&format!("{runtime}:"), "RUNTIME:")
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.run(self.script("stop"));
    }
}
