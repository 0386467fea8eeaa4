//! Kills a program under test before the N-th change that it makes outside of itself, by means of
//! `crash-at`, which also counts these changes.

use crate::{Node, Process, enter, programs};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A call of `crash-at` for one program and one crash point.
#[derive(Debug)]
pub struct Crash {
    command: Vec<std::ffi::OsString>,
    log: PathBuf,
}

/// Checks that processes can be traced on this machine.
///
/// # Errors
/// The reason that `crash-at` reports.
pub fn can_crash() -> Result<(), String> {
    let mut command = Command::new(programs::built("crash-at"));
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
    /// Kills the program under test before its `at`-th change; with 0 the changes are only counted.
    /// The program `also` is killed with it.
    pub fn crash(&self, program: &str, at: usize, also: Option<&str>) -> Crash {
        // The process that executes a plugin (`nrid --launch`) keeps no state and is not counted.
        self.crash_of(&programs::built(program), "--launch", at, also)
    }

    /// Kills the real runtime, but not its `init` process, which becomes the container's; and the
    /// wrapper with it, since killing a wrapper kills its runtime, too.
    ///
    /// # Panics
    /// The runtime does not exist.
    pub fn crash_runtime(&self, at: usize) -> Crash {
        let program = self.runtime().path.canonicalize().expect("the runtime exists");
        self.crash_of(&program, "init", at, Some("nri-container-runtime"))
    }

    fn crash_of(&self, program: &Path, except: &str, at: usize, also: Option<&str>) -> Crash {
        let log = self.path("crash");
        // Log of an earlier crash.
        let _ = fs::remove_file(&log);
        let mut command = vec![programs::built("crash-at").into_os_string(), at.to_string().into()];
        command.extend(["--except".into(), except.into()]);
        if let Some(also) = also {
            let mark = self.path("").into_os_string();
            command.extend(["--also".into(), programs::built(also).into_os_string(), mark]);
        }
        command.extend(["--log".into(), log.clone().into(), program.into()]);
        Crash { command, log }
    }

    /// Returns the command `nrictl start`.
    pub fn starter(&self) -> Command {
        let mut command = enter::command(programs::built("nrictl"));
        command.arg("--config").arg(self.config()).arg("start");
        command
    }
}

impl Crash {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }

    /// Returns a command that runs `inner` and traces the program among its descendants.
    pub fn of(&self, inner: &Command) -> Command {
        let mut command = self.command();
        command.arg("--").arg(inner.get_program()).args(inner.get_args()).current_dir("/");
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Traces a running process of the program for as long as the returned value lives.
    ///
    /// # Panics
    /// The process cannot be traced.
    pub fn follow(&self, process: Process) -> Following {
        let mut command = self.command();
        command.arg("--pid").arg(process.0.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("crash-at is built");
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        assert!(
            matches!(read, Some(Ok(_))) && line == "traced\n",
            "crash-at printed {line:?} instead of \"traced\""
        );
        Following(child)
    }

    /// Changes that the program has attempted, in order.
    pub fn points(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The change before which the program was killed; `None` if it was not killed.
    pub fn killed(&self) -> Option<String> {
        self.points().iter().find_map(|line| line.strip_prefix("KILLED ").map(str::to_owned))
    }
}

/// A process that `crash-at` traces.
#[derive(Debug)]
pub struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        // Killing the tracer detaches it; the traced process continues.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
