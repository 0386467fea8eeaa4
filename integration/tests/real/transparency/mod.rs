//! The same steps with the bare runtime and through the wrapper come to the same: exit codes,
//! output, files, what the container sees.
//!
//! Each scenario is played three times, each time on a [`Node`] of its own: bare; through the
//! wrapper without any plugin; and with a plugin that changes each creation, so that `config.json`
//! files are rewritten and hooks injected. What the steps note is compared as text, with what
//! differs by nature (names of this node, times, process ids) taken out. Start from
//! [`transparency`].

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bare,
    Wrapped,
    Adjusted,
}

/// One of the three performances of a scenario.
struct Stage {
    node: Node,
    way: Way,
    notes: std::cell::RefCell<Vec<String>>,
}

/// Plays `steps` the three ways with each runtime, and demands that the notes are the same.
fn alike(name: &str, steps: impl Fn(&Stage)) {
    for_each_runtime(name, |runtime| {
        let play = |way| {
            let stage = Stage { node: Node::new(runtime), way, notes: Vec::new().into() };
            let journal = (way == Way::Adjusted).then(|| {
                stage.node.launch(
                    "10-adjust",
                    &Program::Adjust,
                    "[create]\nenv = { set = { NRI_SEEN = 'yes' } }\n",
                )
            });
            steps(&stage);
            let notes = stage.notes.take();
            assert!(!notes.is_empty(), "{name}: a scenario without a note compares nothing");
            (notes, journal.map(|journal| journal.entries().len()))
        };
        let (bare, _) = play(Way::Bare);
        for way in [Way::Wrapped, Way::Adjusted] {
            let (notes, received) = play(way);
            assert_eq!(notes, bare, "{name} ({}), {way:?}", runtime.name);
            // Else nothing of ours would have taken part.
            assert!(
                received.is_none_or(|n| n > 0),
                "{name} ({}): no plugin heard of it",
                runtime.name
            );
        }
    });
}

impl Stage {
    /// The program, up to the runtime's global options.
    fn command(&self) -> Command {
        match self.way {
            Way::Bare => self.node.runtime().command(&self.node.root()),
            Way::Wrapped | Way::Adjusted => self.node.wrapper(),
        }
    }

    /// The same, called by a shell after it has done `first`.
    fn after(&self, first: &str) -> Command {
        after(first, &self.command())
    }

    /// Calls it.
    fn call(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command();
        command.args(arguments);
        self.node.run(command)
    }

    /// Calls it, and notes how that ended and what it said.
    fn reported(&self, arguments: &[&str]) -> Ended {
        let ended = self.call(arguments);
        self.note(arguments.join(" "), saying(&ended));
        ended
    }

    /// Starts it in the background.
    fn begin(&self, mut command: Command, name: &str) -> Running {
        let (out, err) =
            (self.node.path(&format!("{name}.out")), self.node.path(&format!("{name}.err")));
        let file = |path: &Path| File::create(path).expect("our directory");
        let child = command
            .stdin(Stdio::null())
            .stdout(file(&out))
            .stderr(file(&err))
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running { child, out }
    }

    /// Notes something, without what differs by nature.
    fn note(&self, what: impl Display, text: impl Display) {
        let dir = self.node.path("").display().to_string();
        let dir = dir.trim_end_matches('/').to_owned();
        let text =
            format!("{what}: {text}").replace(&dir, "DIR").replace(self.node.prefix(), "PREFIX");
        self.notes.borrow_mut().push(without_times(&text));
    }

    /// A container that waits for its end, created and started.
    fn waiting(&self, name: &str) -> String {
        self.started(
            name,
            &["/bin/sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"],
            |_| {},
        )
    }

    /// A container, created and started, that has printed `ready`.
    fn started(
        &self,
        name: &str,
        arguments: &[&str],
        edit: impl FnOnce(&mut serde_json::Value),
    ) -> String {
        let id = self.node.id(name);
        let bundle = self.node.bundle(&id).arguments(arguments).make();
        bundle.edit(edit);
        let created = self.call(&["create", "--bundle", text(bundle.dir()), &id]).success();
        self.call(&["start", &id]).success();
        wait_until("the container", || created.out().contains("ready").then_some(()));
        id
    }

    /// The container's process.
    fn pid(&self, id: &str) -> Process {
        let state = self.node.state(id).unwrap_or_else(|| panic!("{id} is not there"));
        Process(state["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid"))
    }

    /// Waits until the runtime says so.
    fn wait_for(&self, id: &str, status: &str) {
        wait_until(format_args!("{id} to be {status}"), || {
            self.node.state(id).is_some_and(|state| state["status"] == status).then_some(())
        });
    }
}

/// A call that goes on.
struct Running {
    child: Child,
    out: PathBuf,
}

impl Running {
    fn process(&self) -> Process {
        Process(self.child.id())
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    fn wait_for(&self, what: &str) {
        wait_until(format_args!("{what:?} in {:?}", self.text()), || {
            self.text().contains(what).then_some(())
        });
    }

    /// Waits for its end.
    fn end(mut self) -> String {
        let status = wait_until("the end of a call", || self.child.try_wait().expect("our child"));
        format!("{status}, {:?}", self.text())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our paths are UTF-8")
}

fn how(ended: &Ended) -> String {
    match (ended.code, ended.signal) {
        (Some(code), None) => format!("exit {code}"),
        other => format!("{other:?}"),
    }
}

fn saying(ended: &Ended) -> String {
    format!("{}\n{}\n{}", how(ended), ended.out(), ended.err())
}

/// Times of log lines (`2026-01-02T03:04:05`, with what belongs to it) and process ids that
/// messages name.
fn without_times(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("T").filter(|_| rest.len() > 19) {
        let (start, end) = (at.saturating_sub(10), (at + 9).min(rest.len()));
        let time = rest.is_char_boundary(start) && rest.is_char_boundary(end) && {
            let shape: String = rest[start..end]
                .chars()
                .map(|c| if c.is_ascii_digit() { '0' } else { c })
                .collect();
            shape == "0000-00-00T00:00:00"
        };
        if time {
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
fn differences_by_nature_are_removed_before_the_comparison() {
    assert_eq!(
        without_times(
            "a T b time=\"2026-11-21T22:04:14Z\" level=error TT, 2026-11-21T22:04:14.123456Z: T"
        ),
        "a T b time=\"TIME\" level=error TT, TIME: T"
    );
}
