//! Podman, which has no daemon: its calls share storage, configuration and namespaces.

use super::{Engine, Host, Suite, suite::engine_script};
use crate::{Ended, programs::built};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A podman that one test sets up, and its host. Dropping this value removes the pods and
/// containers.
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
    /// Sets up podman. With `json`, the runtime `nri` is in `runtime_supports_json`, so that podman
    /// passes `--log` to it.
    pub fn start_with(suite: &Suite, json: bool) -> Self {
        Self::set_up(Host::new(suite), json, "")
    }

    /// Sets up podman with `nri` in `runtime_supports_json`, and with the lines `engine` in
    /// `[engine]` of its configuration.
    pub fn start_configured(suite: &Suite, engine: &str) -> Self {
        Self::set_up(Host::new(suite), true, engine)
    }

    fn set_up(host: Host, json: bool, engine: &str) -> Self {
        let new = Self { host };
        fs::create_dir(new.dir()).expect("the test directory is writable");
        let more = if json { ", \"nri\"" } else { "" };
        let (launcher, bare) = (new.launcher(), &new.runtime());
        let engine = format!(
            "{engine}\nruntime = \"nri\"\nruntime_supports_json = [\"crun\", \"runc\"{more}]\n\
             [engine.runtimes]\nnri = [{launcher:?}]\n{} = [{:?}]\n",
            bare.name, bare.path
        );
        fs::write(new.dir().join("engine.conf"), engine).expect("the test directory is writable");
        new.run_start_script();
        new
    }

    /// Sets up podman with a private `/etc` that holds the wrapper's configuration of this host.
    pub fn start_in_etc(suite: &Suite) -> Self {
        Self::set_up_in_etc(suite, false)
    }

    /// Sets up podman like [`Self::start_in_etc`], with the program of infra containers in `/usr`,
    /// where the distribution installs it.
    pub fn start_as_installed(suite: &Suite) -> Self {
        Self::set_up_in_etc(suite, true)
    }

    fn set_up_in_etc(suite: &Suite, usr: bool) -> Self {
        let new = Self { host: Host::new(suite) };
        fs::create_dir(new.dir()).expect("the test directory is writable");
        if usr {
            fs::create_dir(new.dir().join("usr")).expect("the test directory is writable");
        }
        let runc = suite.program("runc");
        let engine = format!("runtime = \"runc\"\n[engine.runtimes]\nrunc = [{runc:?}]\n");
        fs::write(new.dir().join("engine.conf"), engine).expect("the test directory is writable");
        new.host.configure_etc(&new.etc());
        new.run_start_script();
        new
    }

    fn run_start_script(&self) {
        let mut command = self.script("start");
        command.arg(&self.suite().name);
        self.run(command).success();
    }

    /// Directory that is mounted over podman's `/etc`.
    pub fn etc(&self) -> PathBuf {
        self.dir().join("etc")
    }

    /// Calls `nrictl` without `--config` in podman's mount namespace.
    pub fn nrictl(&self, arguments: &[&str]) -> Ended {
        self.inside(&built("nrictl"), arguments)
    }

    /// Calls a program in podman's mount namespace.
    pub fn inside(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = self.script("enter");
        command.arg(program).args(arguments);
        self.run(command)
    }

    /// Directory of podman's storage and configuration.
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
        Self::set_up(Host::with_runtime(suite, runtime), true, "")
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
