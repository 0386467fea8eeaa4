//! Calls `crash-at`, which counts the changes that a program under test makes outside of its
//! process, and kills the program before the N-th of them.

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
pub fn check_tracing() -> Result<(), String> {
    let mut command = Command::new(programs::built("crash-at"));
    let output = command.args(["0", "--log", "/dev/null", "/bin/true", "--", "true"]).output();
    let output = output.map_err(|e| format!("crash-at: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

impl Node {
    /// Prepares the kill of a program under test before its `at`-th change; with 0 the changes are
    /// only counted. This node's processes of the program `also` are killed at the same time.
    pub fn crash(&self, program: &str, at: usize, also: Option<&str>) -> Crash {
        // The process that executes a plugin (`nrid --launch`) keeps no state and is not counted.
        self.crash_program(&programs::built(program), "--launch", at, also)
    }

    /// Prepares the kill of the real runtime like [`Node::crash`]. Changes of the runtime's `init`
    /// process are not counted, because it becomes the container's process. The wrapper is killed
    /// at the same time, as when a caller kills the wrapper and thereby the runtime.
    ///
    /// # Panics
    /// The runtime does not exist.
    pub fn crash_runtime(&self, at: usize) -> Crash {
        let program = self.runtime().path.canonicalize().expect("the runtime exists");
        self.crash_program(&program, "init", at, Some("nri-container-runtime"))
    }

    fn crash_program(&self, program: &Path, except: &str, at: usize, also: Option<&str>) -> Crash {
        let log = self.path("crash");
        // Remove the log of an earlier crash.
        let _ = fs::remove_file(&log);
        let mut command = vec![programs::built("crash-at").into_os_string(), at.to_string().into()];
        command.extend(["--except".into(), except.into()]);
        if let Some(also) = also {
            let node_dir = self.path("").into_os_string();
            command.extend(["--also".into(), programs::built(also).into_os_string(), node_dir]);
        }
        command.extend(["--log".into(), log.clone().into(), program.into()]);
        Crash { command, log }
    }

    /// Returns the command `nrictl start`.
    pub fn start_command(&self) -> Command {
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
    pub fn traced_command(&self, inner: &Command) -> Command {
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
    pub fn trace(&self, process: Process) -> TracedProcess {
        let mut command = self.command();
        command.arg("--pid").arg(process.0.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("crash-at is built");
        let mut line = String::new();
        let result = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        assert!(
            matches!(result, Some(Ok(_))) && line == "traced\n",
            "crash-at printed {line:?} instead of \"traced\""
        );
        TracedProcess(child)
    }

    /// Changes that the program has attempted, in order.
    pub fn points(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The change before which the program was killed; `None` if it was not killed.
    pub fn killed_before(&self) -> Option<String> {
        self.points().iter().find_map(|line| line.strip_prefix("KILLED ").map(str::to_owned))
    }
}

/// A process that `crash-at` traces.
#[derive(Debug)]
pub struct TracedProcess(Child);

impl Drop for TracedProcess {
    fn drop(&mut self) {
        // Killing the tracer detaches it; the traced process continues.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
