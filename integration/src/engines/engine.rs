//! What tests of Docker and Podman share: engines with the same command line.

use super::{Host, Suite};
use crate::{ContainerProcess, Ended, Process};
use serde_json::Value;
use std::{ops::Deref, process::Command};

/// An engine of a test's own with a command line like Docker's, and its host. The wrapper is its
/// default runtime, as `nri`; what is below the wrapper is known by its own name, too.
pub trait Engine: Deref<Target = Host> + Sized + Sync {
    /// The engine's name, that of its client.
    const NAME: &'static str;
    /// Its program in a suite.
    const PROGRAM: &'static str;
    /// Exit code of `run` where the runtime fails.
    const RUNTIME_FAILED: i32;

    /// Starts it with the suite's runc below the wrapper.
    fn start(suite: &Suite) -> Self {
        Self::start_on(suite, "runc")
    }

    /// Starts it with another runtime of the suite below the wrapper.
    fn start_on(suite: &Suite, runtime: &'static str) -> Self;

    /// A call of its client.
    fn client(&self, arguments: &[&str]) -> Command;

    /// Calls `run --rm` without a network, with this one of its runtimes.
    fn run_with(&self, runtime: &str, arguments: &[&str]) -> Ended;

    /// An error message of a container of `runtime`, without what names the runtime.
    fn error(ended: &Ended, runtime: &str) -> String;

    /// Calls its client.
    fn call_client(&self, arguments: &[&str]) -> Ended {
        self.run(self.client(arguments))
    }

    /// Calls its client; stdout without the last line feed.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        self.call_client(arguments).success().out().trim_end().to_owned()
    }

    /// Calls `run --detach` with a name; returns the id.
    #[track_caller]
    fn run_detached(&self, name: &str, arguments: &[&str]) -> String {
        self.out(&[&["run", "--detach", "--name", name], arguments].concat())
    }

    /// `inspect` of a container.
    #[track_caller]
    fn inspect(&self, container: &str) -> Value {
        let text = self.out(&["inspect", container]);
        let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        all[0].take()
    }

    /// The first process of a running container.
    #[track_caller]
    fn process_of(&self, container: &str) -> ContainerProcess {
        let pid = self.inspect(container)["State"]["Pid"].as_u64().expect("a process id");
        ContainerProcess::of(Process(u32::try_from(pid).expect("a process id")))
    }
}
