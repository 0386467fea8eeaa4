//! Runs and times life cycles of containers: create, start, kill, delete.

use crate::{node::Node, timing::timed};
use nri_integration::Bundle;
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Verbs of a life cycle, in order.
pub(crate) const VERBS: [&str; 4] = ["create", "start", "kill", "delete"];

/// Time of each verb in microseconds.
pub(crate) type Times = [f64; 4];

/// A container that one program creates and deletes again and again. Dropping this value deletes
/// the container.
pub(crate) struct Container<'a> {
    node: &'a Node,
    program: PathBuf,
    root: PathBuf,
    id: String,
    bundle: Bundle,
    pid_file: PathBuf,
}

impl<'a> Container<'a> {
    /// Makes the bundle of a container whose cgroup is below `cgroup`. `program` is a runtime or
    /// executes one; the runtime keeps its state in the node's directory `root`.
    pub(crate) fn new(node: &'a Node, program: &Path, root: &str, id: &str, cgroup: &str) -> Self {
        let (bundles, root) = (node.path("bundles"), node.path(root));
        let bundle = Bundle::new(&bundles, id).root(&node.path("rootfs"));
        let bundle = bundle.cgroup(&format!("{cgroup}/{id}")).arguments(&["/bin/sleep", "1000"]);
        let pid_file = node.path(&format!("{id}.pid"));
        let (program, id) = (program.to_owned(), id.to_owned());
        Self { node, program, root, id, bundle: bundle.make(), pid_file }
    }

    /// Returns a command of the program with `--root`, which engines pass before the verb.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.node.command(&self.program);
        command.arg("--root").arg(&self.root);
        command
    }

    /// Calls `create`; returns the time in microseconds.
    pub(crate) fn create(&self) -> f64 {
        let mut create = self.command();
        create.args(["create", "--bundle"]).arg(self.bundle.dir());
        timed(create.arg("--pid-file").arg(&self.pid_file).arg(&self.id))
    }

    /// Calls a verb that has only the id as an argument; returns the time in microseconds.
    pub(crate) fn call(&self, verb: &str) -> f64 {
        timed(self.command().arg(verb).arg(&self.id))
    }

    /// Calls `kill`, and waits until the container's process has ended. Returns the time of the
    /// call in microseconds.
    pub(crate) fn kill(&self) -> f64 {
        let text = fs::read_to_string(&self.pid_file).expect("create writes the file");
        let pid = text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id");
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("the container runs");
        let took = timed(self.command().args(["kill", &self.id, "KILL"]));
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).expect("a pidfd can be polled");
        took
    }

    /// Whether the node's `nrid` has a record of a container or a pod.
    pub(crate) fn has_record(&self) -> bool {
        ["s/containers", "s/pods"].iter().any(|dir| {
            let mut records = fs::read_dir(self.node.path(dir)).expect("nrid was started");
            records.next().is_some()
        })
    }

    /// Runs one life cycle.
    pub(crate) fn live(&self) -> Times {
        [self.create(), self.call("start"), self.kill(), self.call("delete")]
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // The state remains if a life cycle has failed.
        if self.root.join(&self.id).exists() {
            let _ = self.command().args(["delete", "--force", &self.id]).status();
        }
    }
}

/// Returns the sum of the times of each life cycle.
pub(crate) fn totals(lives: &[Times]) -> Vec<f64> {
    lives.iter().map(|times| times.iter().sum()).collect()
}
