//! `run` and `exec` in the foreground: the runtime forwards its signals to the container, and
//! standard files are those of the caller.

use super::{Stage, alike, how, text};
use nri_integration::*;
use rustix::process::Signal;

/// Script that prints each signal it receives, and exits with 9 at SIGTERM.
const SCRIPT: &str = "for s in HUP INT USR1 USR2 WINCH; do trap \"echo got $s\" $s; done; trap \
    'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.05; done";

fn run(stage: &Stage, id: &str, arguments: &[&str]) -> super::Running {
    let bundle = stage.node.bundle(id).arguments(arguments).make();
    let mut command = stage.command();
    command.args(["run", "--bundle", text(bundle.dir()), id]);
    stage.begin(command, id)
}

#[test]
fn signals_to_a_foreground_wrapper_reach_the_container() {
    alike("signals in the foreground", |stage| {
        let id = stage.node.id("c");
        let running = run(stage, &id, &["/bin/sh", "-c", SCRIPT]);
        running.wait_for("ready");
        for (name, signal) in [
            ("HUP", Signal::HUP),
            ("INT", Signal::INT),
            ("USR1", Signal::USR1),
            ("USR2", Signal::USR2),
        ] {
            running.process().signal(signal);
            running.wait_for(&format!("got {name}\n"));
        }
        running.process().signal(Signal::TERM);
        stage.note("run", running.end());
        wait_until("the container to be deleted", || stage.node.state(&id).is_none().then_some(()));
    });
}

#[test]
fn a_killed_foreground_container_is_transparent() {
    alike("killed in the foreground", |stage| {
        for signal in ["KILL", "9", "SIGKILL"] {
            let id = stage.node.id("c");
            let running = run(stage, &id, &["/bin/sh", "-c", SCRIPT]);
            running.wait_for("ready");
            stage.reported(&["kill", &id, signal]);
            stage.note(signal, running.end());
            wait_until("the container to be deleted", || {
                stage.node.state(&id).is_none().then_some(())
            });
        }
    });
}

#[test]
fn signals_to_a_foreground_exec_reach_its_process() {
    alike("signals to exec", |stage| {
        let id = stage.waiting("c");
        let mut command = stage.command();
        command.args(["exec", &id, "/bin/sh", "-c", SCRIPT]);
        let running = stage.begin(command, "exec");
        running.wait_for("ready");
        running.process().signal(Signal::USR1);
        running.wait_for("got USR1\n");
        running.process().signal(Signal::TERM);
        stage.note("exec", running.end());
        stage.note("the container", how(&stage.call(&["exec", &id, "/bin/true"])));
    });
}

#[test]
fn stdin_stdout_and_stderr_are_transparent() {
    alike("stdio", |stage| {
        let id = stage.node.id("c");
        let script = "cat; echo error >&2; exit 4";
        let bundle = stage.node.bundle(&id).arguments(&["/bin/sh", "-c", script]).make();
        std::fs::write(stage.node.path("input"), "some\0input\n").unwrap();
        for verb in ["run", "exec"] {
            let input = std::fs::File::open(stage.node.path("input")).unwrap();
            let mut command = stage.command();
            if verb == "run" {
                command.args(["run", "--bundle", text(bundle.dir()), &id]);
            } else {
                command.args(["exec", &stage.waiting("d"), "/bin/sh", "-c", script]);
            }
            command.stdin(input);
            let ended = stage.node.run(command);
            stage.note(verb, super::saying(&ended));
            assert_eq!(
                (ended.code, ended.out().as_str()),
                (Some(4), "some\0input\n"),
                "{}",
                ended.err()
            );
        }
    });
}
