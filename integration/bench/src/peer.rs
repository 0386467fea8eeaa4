//! Runs a program with an adaptation, upstream's or ours, and its plugins.

use crate::node::{kill_all, start_plugins};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// The running program and its plugins. Dropping this value kills them.
pub(crate) struct AdaptationProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    plugins: Vec<Child>,
    _dir: TempDir,
}

/// Times of some creations.
pub(crate) struct Creations {
    /// Time of each creation in microseconds.
    pub(crate) took: Vec<f64>,
    /// Time from the first request until the last reply in microseconds.
    pub(crate) elapsed: f64,
    /// CPU time of the program in microseconds.
    pub(crate) cpu: f64,
}

impl AdaptationProcess {
    /// Starts `command` with the socket and the request as its last arguments, and `plugins`
    /// plugins that delay their replies by `milliseconds`.
    pub(crate) fn start(
        mut command: Command,
        request: &Path,
        plugin: &Path,
        plugins: usize,
        milliseconds: u32,
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("nri-").tempdir().expect("TMPDIR is writable");
        let socket = dir.path().join("nri.sock");
        command.arg(&socket).arg(request).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        nri_integration::wait_until("the NRI socket", || socket.exists().then_some(()));
        let input = child.stdin.take().expect("stdin is a pipe");
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let started = start_plugins(plugin, plugins, &socket, milliseconds);
        let mut process = Self { child, input, output, plugins: started, _dir: dir };
        assert_eq!(process.command(&format!("plugins {plugins}")), "ready\n");
        process
    }

    /// Sends a command to the program, and returns the reply, a line.
    fn command(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("the program reads its stdin");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("stdout is text");
        line
    }

    /// Creates `count` containers, `in_flight` of them at the same time.
    pub(crate) fn create(&mut self, count: usize, in_flight: usize) -> Creations {
        let line = self.command(&format!("run {count} {in_flight}"));
        let reply: Value = serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("the program failed: {e}: {line:?}"));
        let number = |value: &Value| value.as_f64().expect("a number");
        let took = reply["took"].as_array().expect("a list").iter().map(number).collect();
        Creations { took, elapsed: number(&reply["elapsed"]), cpu: number(&reply["cpu"]) }
    }
}

impl Drop for AdaptationProcess {
    fn drop(&mut self) {
        kill_all(&mut self.plugins);
        kill_all(std::slice::from_mut(&mut self.child));
    }
}
