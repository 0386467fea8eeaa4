//! dockerd, and its client.

use super::{Engine, Host, Suite, suite::engine_script};
use crate::{Ended, programs::ours};
use serde_json::{Value, json};
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

/// A dockerd of a test's own, and its host. When it is dropped, its containers are removed and it
/// is stopped.
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
    /// Starts it with a `daemon.json`.
    pub fn start_with(host: Host, configuration: impl FnOnce(&Host) -> Value) -> Self {
        let new = Self { host };
        fs::create_dir(new.dir()).expect("our directory");
        fs::write(new.dir().join("daemon.json"), configuration(&new.host).to_string())
            .expect("our directory");
        new.begin();
        new
    }

    /// Starts it with an `/etc` of its own, in which there are this `daemon.json` and this host's
    /// configuration of the wrapper.
    pub fn start_in_etc(suite: &Suite, daemon_json: &str) -> Self {
        let new = Self { host: Host::new(suite) };
        fs::create_dir_all(new.dir().join("etc/docker")).expect("our directory");
        fs::write(new.daemon_json(), daemon_json).expect("our directory");
        new.host.configure_etc(&new.dir().join("etc"));
        new.begin();
        new
    }

    fn begin(&self) {
        let mut command = self.script("start");
        command.arg(&self.suite().name);
        self.run(command).success();
    }

    /// `daemon.json` in its own `/etc`.
    pub fn daemon_json(&self) -> PathBuf {
        self.dir().join("etc/docker/daemon.json")
    }

    /// Calls `nrictl` where dockerd is, without telling it a configuration.
    pub fn nrictl(&self, arguments: &[&str]) -> Ended {
        let mut command = self.script("enter");
        command.arg(ours("nrictl")).args(arguments);
        self.run(command)
    }

    /// Lets it read its configuration again.
    pub fn reload(&self) {
        self.run(self.script("reload")).success();
    }

    /// Ends dockerd alone, by this signal.
    pub fn halt(&self, signal: &str) {
        let mut command = self.script("halt");
        command.arg(signal);
        self.run(command).success();
    }

    /// Starts it again.
    pub fn resume(&self) {
        self.run(self.script("resume")).success();
    }

    /// Its directory.
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

    /// Containers live on without it. It has runc by itself.
    fn start_on(suite: &Suite, runtime: &'static str) -> Self {
        Self::start_with(Host::on(suite, runtime), |host| {
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

    /// The client of 20.10 may add a line of its own.
    fn error(ended: &Ended, _: &str) -> String {
        ended.err().lines().next().unwrap_or_default().to_owned()
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
