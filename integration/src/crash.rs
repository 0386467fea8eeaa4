//! Programs of ours that are killed before the N-th thing that they are about to change outside
//! themselves: `crash-at` does it, and counts.

use crate::{Node, Process, enter, programs};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A program, and where it is killed.
#[derive(Debug)]
pub struct Crash {
    command: Vec<std::ffi::OsString>,
    log: PathBuf,
}

/// Whether processes can be traced here.
///
/// # Errors
/// Why not.
pub fn can_crash() -> Result<(), String> {
    let mut command = Command::new(programs::ours("crash-at"));
    let tried = command.args(["0", "--log", "/dev/null", "/bin/true", "--", "true"]).output();
    let tried = tried.map_err(|e| format!("crash-at: {e}"))?;
    match tried.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&tried.stderr)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

impl Node {
    /// One of our programs, killed before its `at`-th change; 0: never, it is only counted. `also`:
    /// another one of ours that is killed with it.
    pub fn crash(&self, program: &str, at: usize, also: Option<&str>) -> Crash {
        // The process that becomes a plugin is none that keeps anything.
        self.crash_of(&programs::ours(program), "--launch", at, also)
    }

    /// The real runtime, but not the process that becomes the container's, and the wrapper with it:
    /// it is killed when the wrapper is.
    ///
    /// # Panics
    /// It is not there.
    pub fn crash_runtime(&self, at: usize) -> Crash {
        let program = self.runtime().path.canonicalize().expect("it has been tried");
        self.crash_of(&program, "init", at, Some("nri-container-runtime"))
    }

    fn crash_of(&self, program: &Path, except: &str, at: usize, also: Option<&str>) -> Crash {
        let log = self.path("crash");
        // That of an earlier one.
        let _ = fs::remove_file(&log);
        let mut command = vec![programs::ours("crash-at").into_os_string(), at.to_string().into()];
        command.extend(["--except".into(), except.into()]);
        if let Some(also) = also {
            let mark = self.path("").into_os_string();
            command.extend(["--also".into(), programs::ours(also).into_os_string(), mark]);
        }
        command.extend(["--log".into(), log.clone().into(), program.into()]);
        Crash { command, log }
    }

    /// `nrictl start`, to be run.
    pub fn starter(&self) -> Command {
        let mut command = enter::command(programs::ours("nrictl"));
        command.arg("--config").arg(self.config()).arg("start");
        command
    }
}

impl Crash {
    fn begin(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }

    /// A command below which the program appears.
    pub fn of(&self, inner: &Command) -> Command {
        let mut command = self.begin();
        command.arg("--").arg(inner.get_program()).args(inner.get_args()).current_dir("/");
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// A process of the program that runs already, followed for as long as the returned value
    /// lives.
    ///
    /// # Panics
    /// It cannot be traced.
    pub fn follow(&self, process: Process) -> Following {
        let mut command = self.begin();
        command.arg("--pid").arg(process.0.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("crash-at is built");
        let mut line = String::new();
        let said = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        assert!(matches!(said, Some(Ok(_))) && line == "traced\n", "crash-at says {line:?}");
        Following(child)
    }

    /// What the program was about to change so far, in this order.
    pub fn points(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What it was about to change when it was killed; none: that has not happened.
    pub fn killed(&self) -> Option<String> {
        self.points().iter().find_map(|line| line.strip_prefix("KILLED ").map(str::to_owned))
    }
}

/// A process that is being followed.
#[derive(Debug)]
pub struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        // What is traced goes on.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
