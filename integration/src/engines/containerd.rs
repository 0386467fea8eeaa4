//! containerd, with its clients `ctr` and (for the container runtime interface) `cri`.

use super::{
    Host, Suite,
    suite::{are_disabled, cri_client, engine_script},
};
use crate::{Ended, External, Journal, Program, skip};
use serde_json::Value;
use std::{
    fs,
    ops::Deref,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A containerd that one test starts, and its host. Dropping this value deletes the containers and
/// stops containerd.
#[derive(Debug)]
pub struct Containerd {
    host: Host,
}

impl Deref for Containerd {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Containerd {
    /// Starts containerd with its built-in NRI disabled and the tests' images imported.
    pub fn start(suite: &Suite) -> Self {
        let new = Self { host: Host::new(suite) };
        new.run_start_script(&new.launcher(), &[]);
        new
    }

    /// Starts containerd with its built-in NRI enabled and a plugin that containerd launches;
    /// returns the plugin's journal.
    pub fn start_with_nri(
        suite: &Suite,
        name: &str,
        program: &Program,
        config: &str,
    ) -> (Self, Journal) {
        let host = Host::new(suite);
        let launcher = host.launcher();
        Self::set_up_nri(host, &launcher, name, program, config)
    }

    /// Starts containerd like [`Self::start_with_nri`], but without the wrapper: containerd calls
    /// runc.
    pub fn start_with_nri_alone(
        suite: &Suite,
        name: &str,
        program: &Program,
        config: &str,
    ) -> (Self, Journal) {
        Self::set_up_nri(Host::new(suite), &suite.program("runc"), name, program, config)
    }

    fn set_up_nri(
        host: Host,
        runtime: &Path,
        name: &str,
        program: &Program,
        config: &str,
    ) -> (Self, Journal) {
        let new = Self { host };
        let nri = new.dir().join("nri");
        for dir in ["plugins", "conf.d"] {
            fs::create_dir_all(nri.join(dir)).expect("the test directory is writable");
        }
        let journal = new.path("containerd-plugin.journal");
        let config = program.configuration(config, &journal);
        fs::write(nri.join("conf.d").join(format!("{name}.conf")), config)
            .expect("the test directory is writable");
        symlink(program.path(), nri.join("plugins").join(name))
            .expect("the test directory is writable");
        new.run_start_script(runtime, &["--nri"]);
        (new, Journal::new(&journal))
    }

    /// Starts an external plugin, which connects to containerd's built-in NRI, and waits until it
    /// is synchronized. `options` are arguments of the plugin.
    pub fn connect_to_nri(
        &self,
        name: &str,
        program: &Program,
        options: &[&str],
        config: &str,
    ) -> External {
        let socket = self.dir().join("nri.sock");
        External::start(program, name, options, config, &socket, &self.path(name))
    }

    fn run_start_script(&self, runtime: &Path, options: &[&str]) {
        let mut command = self.script("start");
        command.arg(&self.suite().name).arg(runtime).args(options);
        self.run(command).success();
    }

    /// Enables or disables the built-in NRI in containerd's configuration. containerd applies the
    /// change when it starts again.
    pub fn set_nri_enabled(&self, enabled: bool) {
        let file = self.dir().join("config.toml");
        let text = fs::read_to_string(&file).expect("containerd.sh writes config.toml");
        let section = |enabled: bool| {
            format!("[plugins.'io.containerd.nri.v1.nri']\n  disable = {}\n", !enabled)
        };
        assert!(text.contains(&section(!enabled)), "config.toml lacks the section: {text}");
        fs::write(&file, text.replace(&section(!enabled), &section(enabled)))
            .expect("the test directory is writable");
    }

    /// Stops containerd but not its containers, as an upgrade does.
    pub fn halt(&self) {
        self.run(self.script("halt")).success();
    }

    /// Starts containerd after [`Self::halt`].
    pub fn resume(&self) {
        self.run(self.script("resume")).success();
    }

    /// Directory of containerd's state and configuration.
    pub fn dir(&self) -> PathBuf {
        self.path("containerd")
    }

    /// Log of containerd.
    pub fn engine_log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    /// Returns a `ctr` command.
    pub fn ctr_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("ctr");
        command.arg("--address").arg(self.dir().join("sock")).args(arguments);
        command
    }

    /// Calls `ctr`.
    pub fn ctr(&self, arguments: &[&str]) -> Ended {
        self.run(self.ctr_command(arguments))
    }

    /// Calls a method of the container runtime interface.
    ///
    /// # Panics
    /// The call fails.
    #[track_caller]
    pub fn cri(&self, method: &str, request: &Value) -> Value {
        let reply = self.try_cri(method, request).success().out();
        serde_json::from_str(&reply).unwrap_or_else(|e| panic!("{method}: {e}: {reply}"))
    }

    /// Calls a method of the container runtime interface that may fail.
    pub fn try_cri(&self, method: &str, request: &Value) -> Ended {
        let client = cri_client().expect("tests check has_cri first");
        let mut command = self.enter(&client);
        command.arg(self.dir().join("sock")).arg(method).arg(request.to_string());
        self.run(command)
    }

    /// Whether a client of the container runtime interface exists; records a skip if not. Returns
    /// true if all tests with engines are disabled: [`for_each_suite`](super::for_each_suite) then
    /// records that.
    pub fn has_cri(test: &str) -> bool {
        let exists = cri_client().is_some() || are_disabled();
        if !exists {
            skip(
                test,
                "no client of the container runtime interface; integration/engines/setup.sh \
                    builds it with Go",
            );
        }
        exists
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = self.enter(&engine_script("containerd.sh"));
        command.arg(verb).arg(self.dir());
        command
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.engine_log();
            let tail: Vec<_> = log.lines().rev().take(10).collect();
            eprintln!(
                "-- end of containerd's log:\n{}",
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
        self.run(self.script("stop"));
    }
}
