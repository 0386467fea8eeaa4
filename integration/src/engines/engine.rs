//! Trait of the engines with Docker's command line, for tests that Docker and Podman share.

use super::{Host, Suite};
use crate::{ContainerProcess, Ended, Process};
use serde_json::Value;
use std::{ops::Deref, process::Command};

/// An engine with Docker's command line that one test starts, and its host. The engine's default
/// runtime is the wrapper, named `nri`; the real runtime is registered under its own name, too.
pub trait Engine: Deref<Target = Host> + Sized + Sync {
    /// Name of the engine and of its client.
    const NAME: &'static str;
    /// Name of the engine's program in a suite.
    const PROGRAM: &'static str;
    /// Exit code of the client's `run` if the runtime fails.
    const RUNTIME_FAILED: i32;

    /// Starts the engine with the suite's runc as the real runtime.
    fn start(suite: &Suite) -> Self {
        Self::start_on(suite, "runc")
    }

    /// Starts the engine with this real runtime of the suite.
    fn start_on(suite: &Suite, runtime: &'static str) -> Self;

    /// Returns a command of the engine's client.
    fn client(&self, arguments: &[&str]) -> Command;

    /// Calls `run --rm` without a network and with this runtime of the engine.
    fn run_with(&self, runtime: &str, arguments: &[&str]) -> Ended;

    /// Returns the error message of a failed call, with the name of the runtime removed, so that
    /// messages of two runtimes can be compared.
    fn error(ended: &Ended, runtime: &str) -> String;

    /// Calls the engine's client.
    fn call_client(&self, arguments: &[&str]) -> Ended {
        self.run(self.client(arguments))
    }

    /// Calls the engine's client; returns stdout without the last line feed.
    ///
    /// # Panics
    /// The call fails.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        self.call_client(arguments).success().out().trim_end().to_owned()
    }

    /// Calls `run --detach` with a name; returns the id.
    #[track_caller]
    fn run_detached(&self, name: &str, arguments: &[&str]) -> String {
        self.out(&[&["run", "--detach", "--name", name], arguments].concat())
    }

    /// Returns the output of `inspect` for a container.
    #[track_caller]
    fn inspect(&self, container: &str) -> Value {
        let text = self.out(&["inspect", container]);
        let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        all[0].take()
    }

    /// The init process of a running container.
    #[track_caller]
    fn process_of(&self, container: &str) -> ContainerProcess {
        let pid = self.inspect(container)["State"]["Pid"].as_u64().expect("Pid is a process id");
        ContainerProcess::of(Process(u32::try_from(pid).expect("Pid is a process id")))
    }
}
