//! Tests that the wrapper is transparent: the same calls have the same exit codes, output, files
//! and effects in the container, whether they go to the bare runtime or to the wrapper.
//!
//! Each scenario runs three times, each time on a separate [`Node`]: with the bare runtime, through
//! the wrapper without plugins, and through the wrapper with a plugin that adjusts each container,
//! so that `config.json` is rewritten and hooks are injected. Each step notes its results as text.
//! The node's directory, the prefix of its container ids, and times are replaced before the notes
//! are compared. Start from [`check_transparent`].

mod arguments;
mod checkpoint;
mod consoles;
mod descriptors;
mod exit_codes;
mod foreground;
mod hooks;
mod life_cycle;
mod pid_files;
mod process;

use nri_integration::*;
use std::{
    fmt::Display,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// How a run of a scenario calls the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Directly, without the wrapper.
    Bare,
    /// Through the wrapper, without plugins.
    Wrapped,
    /// Through the wrapper, with a plugin that adjusts each container.
    Adjusted,
}

/// One of the three runs of a scenario.
struct ScenarioRun {
    node: Node,
    way: Way,
    /// Texts that must be equal in all runs.
    notes: std::cell::RefCell<Vec<String>>,
}

/// Replaces the path `DIR/s/bundles/ID-HASH-NUMBER` by `DIR/bundles/ID`.
fn without_own_bundle(text: String) -> String {
    let Some((before, own)) = text.split_once("DIR/s/bundles/") else { return text };
    let end = own.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(own.len());
    let id = own[..end].rsplitn(3, '-').nth(2).unwrap_or(&own[..end]);
    without_own_bundle(format!("{before}DIR/bundles/{id}{}", &own[end..]))
}

/// Runs `steps` in each [`Way`] with each runtime, and checks that the notes are equal.
fn check_transparent(name: &str, steps: impl Fn(&ScenarioRun)) {
    for_each_runtime(name, |runtime| {
        let run = |way| {
            let scenario = ScenarioRun { node: Node::new(runtime), way, notes: Vec::new().into() };
            let journal = (way == Way::Adjusted).then(|| {
                scenario.node.launch(
                    "10-adjust",
                    &Program::Adjust,
                    "[create]\nenv = { set = { NRI_SEEN = 'yes' } }\n",
                )
            });
            steps(&scenario);
            let notes = scenario.notes.take();
            assert!(
                !notes.is_empty(),
                "{name}: the scenario has made no note, so that nothing is compared"
            );
            (notes, journal.map(|journal| journal.entries().len()))
        };
        let (bare, _) = run(Way::Bare);
        for way in [Way::Wrapped, Way::Adjusted] {
            let (notes, received) = run(way);
            assert_eq!(notes, bare, "{name} ({}), {way:?}", runtime.name);
            // A plugin that received no event has adjusted nothing.
            assert!(
                received.is_none_or(|n| n > 0),
                "{name} ({}): the plugin received no event",
                runtime.name
            );
        }
    });
}

impl ScenarioRun {
    /// Returns a command of the runtime or the wrapper with global options, but without a verb.
    fn command(&self) -> Command {
        match self.way {
            Way::Bare => self.node.runtime().command(&self.node.root()),
            Way::Wrapped | Way::Adjusted => self.node.wrapper(),
        }
    }

    /// Returns a command of a shell that runs the commands `first` and executes [`Self::command`].
    fn command_after(&self, first: &str) -> Command {
        command_after(first, &self.command())
    }

    /// Calls the runtime or the wrapper.
    fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command();
        command.args(arguments);
        self.node.run(command)
    }

    /// Calls the runtime or the wrapper, and notes the exit code and the output.
    fn call_and_note(&self, arguments: &[&str]) -> Ended {
        let ended = self.call(arguments);
        self.note(arguments.join(" "), status_and_output(&ended));
        ended
    }

    /// Starts a command in the background.
    fn spawn_in_background(&self, mut command: Command, name: &str) -> Running {
        let (out, err) =
            (self.node.path(&format!("{name}.out")), self.node.path(&format!("{name}.err")));
        let file = |path: &Path| File::create(path).expect("the test directory is writable");
        let child = command
            .stdin(Stdio::null())
            .stdout(file(&out))
            .stderr(file(&err))
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child, out }
    }

    /// Notes a text for the comparison. The node's directory, the prefix of its container ids, and
    /// times are replaced by placeholders; the bundle of `nrid` by the engine's, since messages of
    /// the runtime name it.
    fn note(&self, label: impl Display, text: impl Display) {
        let dir = self.node.path("").display().to_string();
        let dir = dir.trim_end_matches('/').to_owned();
        let text = format!("{label}: {text}").replace(&dir, "DIR");
        let text = without_own_bundle(text).replace(self.node.prefix(), "PREFIX");
        self.notes.borrow_mut().push(without_times(&text));
    }

    /// Creates and starts a container that exits with 3 at SIGTERM. Returns the id.
    fn start_waiting_container(&self, name: &str) -> String {
        self.start_container(
            name,
            &["/bin/sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"],
            |_| {},
        )
    }

    /// Creates and starts a container, and waits until it has printed `ready`. Returns the id.
    fn start_container(
        &self,
        name: &str,
        arguments: &[&str],
        edit: impl FnOnce(&mut serde_json::Value),
    ) -> String {
        let id = self.node.id(name);
        let bundle = self.node.bundle(&id).arguments(arguments).make();
        bundle.edit(edit);
        let created = self.call(&["create", "--bundle", path_str(bundle.dir()), &id]).success();
        self.call(&["start", &id]).success();
        wait_until("the container", || created.out().contains("ready").then_some(()));
        id
    }

    /// Returns the container's first process.
    fn pid(&self, id: &str) -> Process {
        let state = self.node.state(id).unwrap_or_else(|| panic!("{id} does not exist"));
        Process(
            state["pid"]
                .as_u64()
                .and_then(|pid| u32::try_from(pid).ok())
                .expect("pid is a process id"),
        )
    }

    /// Waits until the runtime reports this status.
    fn wait_for(&self, id: &str, status: &str) {
        wait_until(format_args!("{id} to be {status}"), || {
            self.node.state(id).is_some_and(|state| state["status"] == status).then_some(())
        });
    }
}

/// A call in progress.
struct Running {
    child: Child,
    out: PathBuf,
}

impl Running {
    fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Returns the stdout of the call so far.
    fn output(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Waits until stdout contains a text.
    fn wait_for(&self, text: &str) {
        wait_until(format_args!("{text:?} in {:?}", self.output()), || {
            self.output().contains(text).then_some(())
        });
    }

    /// Waits until the call has ended. Returns its exit status and stdout as text.
    fn wait_for_exit(mut self) -> String {
        let status = wait_until("the end of a call", || {
            self.child.try_wait().expect("wait for the child process")
        });
        format!("{status}, {:?}", self.output())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn path_str(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// Describes the exit code or signal of a call.
fn exit_status(ended: &Ended) -> String {
    match (ended.code, ended.signal) {
        (Some(code), None) => format!("exit {code}"),
        other => format!("{other:?}"),
    }
}

/// Describes the exit code or signal, stdout and stderr of a call.
fn status_and_output(ended: &Ended) -> String {
    format!("{}\n{}\n{}", exit_status(ended), ended.out(), ended.err())
}

/// Replaces times of log lines (`2026-01-02T03:04:05`, with fraction and zone) by `TIME`.
fn without_times(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("T").filter(|_| rest.len() > 19) {
        let (start, end) = (at.saturating_sub(10), (at + 9).min(rest.len()));
        let is_time = rest.is_char_boundary(start) && rest.is_char_boundary(end) && {
            let shape: String = rest[start..end]
                .chars()
                .map(|c| if c.is_ascii_digit() { '0' } else { c })
                .collect();
            shape == "0000-00-00T00:00:00"
        };
        if is_time {
            result.push_str(&rest[..start]);
            result.push_str("TIME");
            rest = rest[end..]
                .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | 'Z'));
        } else {
            result.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }
    result + rest
}

#[test]
fn times_are_removed_before_the_comparison() {
    assert_eq!(
        without_times(
            "a T b time=\"2026-11-21T22:04:14Z\" level=error TT, 2026-11-21T22:04:14.123456Z: T"
        ),
        "a T b time=\"TIME\" level=error TT, TIME: T"
    );
}
