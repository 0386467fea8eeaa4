//! An engine of a user without root. The user exists in namespaces of its own only.

use super::{Host, Suite, suite::engine_script};
use crate::{
    Ended,
    programs::{NAMES, built, existing},
};
use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

/// A user who can run an engine without root, and the built programs in a directory of the user's
/// PATH. Dropping this value removes the containers and ends the user's processes.
#[derive(Debug)]
pub struct RootlessEngine {
    host: Host,
    /// Name of the engine's client: `podman` or `docker`.
    pub name: &'static str,
}

impl RootlessEngine {
    /// Creates the user, and starts the daemon of the engine, if it has one.
    pub fn start(suite: &Suite, name: &'static str) -> Self {
        let new = Self { host: Host::new(suite), name };
        let programs = new.host.path("programs");
        fs::create_dir(&programs).expect("the test directory is writable");
        for name in NAMES {
            fs::copy(built(name), programs.join(name)).expect("the test directory is writable");
        }
        let adjust = existing(&built("nrid").with_file_name("examples/adjust"));
        fs::copy(adjust, programs.join("adjust")).expect("the test directory is writable");
        let mut command = new.script("start");
        command.arg(&suite.name).arg(programs).arg(name);
        new.host.run(command).success();
        new
    }

    /// Runs a command as the user.
    pub fn call(&self, arguments: &[&str]) -> Ended {
        self.host.run(self.command(arguments))
    }

    /// Returns a command that runs as the user.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.script("as");
        command.args(arguments);
        command
    }

    /// Runs a command as the user; returns stdout without the last line feed.
    ///
    /// # Panics
    /// The command fails.
    #[track_caller]
    pub fn out(&self, arguments: &[&str]) -> String {
        self.call(arguments).success().out().trim_end().to_owned()
    }

    /// Calls the client of the engine; returns stdout like [`Self::out`].
    #[track_caller]
    pub fn client(&self, arguments: &[&str]) -> String {
        self.out(&[&[self.name], arguments].concat())
    }

    /// Makes the daemon of the engine, if it has one, read its configuration again.
    pub fn reload(&self) {
        self.host.run(self.script("reload")).success();
    }

    /// Ends the daemon of the engine, if it has one, and starts it again.
    pub fn restart(&self) {
        self.host.run(self.script("halt")).success();
        self.host.run(self.script("resume")).success();
    }

    /// Path of a file in the home directory, for this process.
    pub fn home(&self, path: &str) -> PathBuf {
        self.dir().join("home/nri-user").join(path)
    }

    /// Writes a file in the home directory. Only its owner, the user, may write to it and to new
    /// directories above it.
    pub fn write(&self, path: &str, bytes: &[u8]) {
        let home = self.home("");
        let owner = fs::metadata(&home).expect("the user has a home directory");
        let owner = std::os::unix::fs::MetadataExt::uid(&owner);
        let file = self.home(path);
        let dir = file.parent().expect("a file is in a directory");
        fs::create_dir_all(dir).expect("the test directory is writable");
        fs::write(&file, bytes).expect("the test directory is writable");
        for path in file.ancestors().take_while(|path| *path != home) {
            chown(path, Some(owner), Some(owner)).expect("the test is root");
        }
    }

    fn dir(&self) -> PathBuf {
        self.host.path("rootless")
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = self.host.enter(Path::new(&engine_script("rootless.sh")));
        command.arg(verb).arg(self.dir());
        command
    }
}

impl Drop for RootlessEngine {
    fn drop(&mut self) {
        self.host.run(self.script("stop"));
    }
}
