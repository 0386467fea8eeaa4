//! containerd, with its clients `ctr` and (for the container runtime interface) `cri`.

use super::{
    Host, Suite,
    suite::{cri_client, engine_script},
};
use crate::{Ended, Journal, Program, skip};
use serde_json::Value;
use std::{fs, ops::Deref, os::unix::fs::symlink, path::PathBuf, process::Command};

/// A containerd of a test's own, and its host. When it is dropped, its containers are deleted and
/// it is stopped.
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
    /// Starts it with its own NRI off and with the tests' images.
    pub fn start(suite: &Suite) -> Self {
        let new = Self { host: Host::new(suite) };
        new.begin(&[]);
        new
    }

    /// Starts it with its own NRI on and with this plugin, which it launches; returns the plugin's
    /// journal.
    pub fn start_with_nri(
        suite: &Suite,
        name: &str,
        program: &Program,
        config: &str,
    ) -> (Self, Journal) {
        let new = Self { host: Host::new(suite) };
        let nri = new.dir().join("nri");
        for dir in ["plugins", "conf.d"] {
            fs::create_dir_all(nri.join(dir)).expect("our directory");
        }
        let journal = new.path("of-the-engine.journal");
        let config = program.configuration(config, &journal);
        fs::write(nri.join("conf.d").join(format!("{name}.conf")), config).expect("our directory");
        symlink(program.path(), nri.join("plugins").join(name)).expect("our directory");
        new.begin(&["--nri"]);
        (new, Journal::new(&journal))
    }

    fn begin(&self, options: &[&str]) {
        let mut command = self.script("start");
        command.arg(&self.suite().name).arg(self.launcher()).args(options);
        self.run(command).success();
    }

    /// Switches its own NRI on or off; it has to be started again to know.
    pub fn switch_nri(&self, on: bool) {
        let file = self.dir().join("config.toml");
        let text = fs::read_to_string(&file).expect("containerd.sh wrote it");
        let line =
            |on: bool| format!("[plugins.'io.containerd.nri.v1.nri']\n  disable = {}\n", !on);
        assert!(text.contains(&line(!on)), "{text}");
        fs::write(&file, text.replace(&line(!on), &line(on))).expect("our directory");
    }

    /// Ends containerd alone, as an upgrade does.
    pub fn halt(&self) {
        self.run(self.script("halt")).success();
    }

    /// Starts it again.
    pub fn resume(&self) {
        self.run(self.script("resume")).success();
    }

    /// Its directory.
    pub fn dir(&self) -> PathBuf {
        self.path("containerd")
    }

    /// Its log.
    pub fn engine_log(&self) -> String {
        fs::read_to_string(self.dir().join("log")).unwrap_or_default()
    }

    /// A call of `ctr`, to be made.
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
    /// It does not answer with a success.
    #[track_caller]
    pub fn cri(&self, method: &str, request: &Value) -> Value {
        let answer = self.try_cri(method, request).success().out();
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{method}: {e}: {answer}"))
    }

    /// The same; it may fail.
    pub fn try_cri(&self, method: &str, request: &Value) -> Ended {
        let client =
            cri_client().expect("tests of the interface ask first whether there is a client");
        let mut command = self.enter(&client);
        command.arg(self.dir().join("sock")).arg(method).arg(request.to_string());
        self.run(command)
    }

    /// Whether a client of the container runtime interface exists; a skip if not.
    pub fn has_cri(test: &str) -> bool {
        let there = cri_client().is_some();
        if !there {
            skip(
                test,
                "no client of the container runtime interface; integration/engines/setup.sh \
                    builds it with Go",
            );
        }
        there
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
