//! dockerd and its client.

use super::{Engine, Host, Suite, suite::engine_script};
use crate::{Ended, programs::built};
use serde_json::{Value, json};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A dockerd that one test starts, and its host. Dropping this value removes the containers and
/// stops dockerd.
#[derive(Debug)]
pub struct Docker {
    host: Host,
}

impl Deref for Docker {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Docker {
    /// Starts dockerd with a `daemon.json`.
    pub fn start_with(host: Host, configuration: impl FnOnce(&Host) -> Value) -> Self {
        let new = Self { host };
        fs::create_dir(new.dir()).expect("the test directory is writable");
        fs::write(new.dir().join("daemon.json"), configuration(&new.host).to_string())
            .expect("the test directory is writable");
        new.run_start_script();
        new
    }

    /// Starts dockerd with a private `/etc` that holds this `daemon.json` and the wrapper's
    /// configuration of this host.
    pub fn start_in_etc(suite: &Suite, daemon_json: &str) -> Self {
        let new = Self { host: Host::new(suite) };
        fs::create_dir_all(new.dir().join("etc/docker")).expect("the test directory is writable");
        fs::write(new.daemon_json(), daemon_json).expect("the test directory is writable");
        new.host.configure_etc(&new.dir().join("etc"));
        new.run_start_script();
        new
    }

    fn run_start_script(&self) {
        let mut command = self.script("start");
        command.arg(&self.suite().name);
        self.run(command).success();
    }

    /// Path of `daemon.json` in dockerd's private `/etc`.
    pub fn daemon_json(&self) -> PathBuf {
        self.dir().join("etc/docker/daemon.json")
    }

    /// Calls `nrictl` without `--config` in dockerd's mount namespace.
    pub fn nrictl(&self, arguments: &[&str]) -> Ended {
        self.inside(&built("nrictl"), arguments)
    }

    /// Calls a program in dockerd's mount namespace.
    pub fn inside(&self, program: &Path, arguments: &[&str]) -> Ended {
        let mut command = self.script("enter");
        command.arg(program).args(arguments);
        self.run(command)
    }

    /// Makes dockerd reload its configuration.
    pub fn reload(&self) {
        self.run(self.script("reload")).success();
    }

    /// Sends a signal to dockerd and waits for its end. Containers keep running.
    pub fn halt(&self, signal: &str) {
        let mut command = self.script("halt");
        command.arg(signal);
        self.run(command).success();
    }

    /// Starts dockerd after [`Self::halt`].
    pub fn resume(&self) {
        self.run(self.script("resume")).success();
    }

    /// Directory of dockerd's state and configuration.
    pub fn dir(&self) -> PathBuf {
        self.path("docker")
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = self.enter(Path::new(&engine_script("dockerd.sh")));
        command.arg(verb).arg(self.dir());
        command
    }
}

impl Engine for Docker {
    const NAME: &'static str = "docker";
    const PROGRAM: &'static str = "dockerd";
    const RUNTIME_FAILED: i32 = 125;

    /// Enables live restore. runc needs no entry in `runtimes`, because dockerd knows it.
    fn start_on(suite: &Suite, runtime: &'static str) -> Self {
        Self::start_with(Host::with_runtime(suite, runtime), |host| {
            let mut runtimes = json!({"nri": {"path": host.launcher()}});
            if runtime != "runc" {
                runtimes[runtime] = json!({"path": host.runtime().path});
            }
            json!({"runtimes": runtimes, "default-runtime": "nri", "live-restore": true})
        })
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("docker");
        command.env("DOCKER_CONFIG", self.dir().join("client"));
        let socket = format!("unix://{}", self.dir().join("sock").display());
        command.arg("-H").arg(socket).args(arguments);
        command
    }

    fn run_with(&self, runtime: &str, arguments: &[&str]) -> Ended {
        let run = ["run", "--rm", "--network=none", "--runtime", runtime];
        self.call_client(&[&run, arguments].concat())
    }

    /// Returns the daemon's line of stderr: the client of Docker 20.10 may add one before or after
    /// it.
    fn error(ended: &Ended, _: &str) -> String {
        let err = ended.err();
        let of_daemon = err.lines().find(|line| line.starts_with("docker: "));
        of_daemon.or_else(|| err.lines().next()).unwrap_or_default().to_owned()
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.dir().join("log")).unwrap_or_default();
            let tail: Vec<_> = log.lines().rev().take(10).collect();
            eprintln!(
                "-- end of dockerd's log:\n{}",
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
        self.run(self.script("stop"));
    }
}
