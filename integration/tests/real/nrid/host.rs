//! Fixture: a host with a process 1 that the test has started, and commands that run on this host.
//! The tests do not use the machine's process 1: tests that run in a container may not be able to
//! enter the namespaces of that process.

use nri_integration::*;
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A host for one test: its process 1 is in new pid and mount namespaces, whose mounts are private.
pub(super) struct Host(Child);

impl Host {
    pub(super) fn new() -> Self {
        let script = "exec unshare --pid --fork --kill-child --mount-proc \
             sh -c 'echo ready; exec sleep 1000000'";
        let mut command = command_after("true", &shell(script));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut String::new()).unwrap();
        Self(child)
    }

    /// Returns a command that runs on this host. The words `enter`, such as `unshare --mount`, run
    /// a shell in other namespaces; the shell runs the commands `first`, then executes `inner`.
    pub(super) fn command(&self, enter: &[&str], first: &str, inner: &Command) -> Command {
        let pid = self.0.id();
        let init = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["--target", init.trim(), "--pid", "--mount", "--"]).args(enter);
        command.args(["sh", "-c", &format!("{first} && exec \"$@\""), "sh"]);
        command.args(words(inner)).current_dir("/");
        command
    }

    /// Runs a command in the namespaces of process 1.
    pub(super) fn run(&self, node: &Node, command: &Command) -> Ended {
        node.run(self.command(HERE, "true", command))
    }

    /// Starts `nrid` in the namespaces of process 1.
    pub(super) fn start_nrid(&self, node: &Node) {
        self.run(node, &ctl(node, &["start"])).success();
    }
}

/// Value of `enter` for [`Host::command`]: the shell stays in the namespaces of process 1.
pub(super) const HERE: &[&str] = &["env"];
/// Value of `enter` for [`Host::command`]: the shell runs in a new mount namespace.
pub(super) const UNSHARE: &[&str] = &["unshare", "--mount", "--propagation", "unchanged"];

/// Returns a command of `nrictl`.
pub(super) fn ctl(node: &Node, arguments: &[&str]) -> Command {
    let mut command = Command::new(node.program("nrictl"));
    command.arg("--config").arg(node.config()).args(arguments);
    command
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Returns the words of a command, without the `nsenter` by which it enters the namespace of the
/// runtimes.
pub(super) fn words(command: &Command) -> Vec<OsString> {
    let all: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let nsenter = all.first().is_some_and(|program| *program == "nsenter");
    let end =
        all.iter().position(|word| *word == "--").filter(|_| nsenter).map_or(0, |end| end + 1);
    all[end..].iter().map(|word| (*word).to_owned()).collect()
}

/// Returns a command of the wrapper.
pub(super) fn wrapper(node: &Node, arguments: &[&str]) -> Command {
    let mut command = node.wrapper();
    command.args(arguments);
    command
}

/// Returns a command that calls `create` of the wrapper.
pub(super) fn create(node: &Node, bundle: &Bundle, id: &str) -> Command {
    wrapper(node, &["create", "--bundle", bundle.dir().to_str().unwrap(), id])
}
