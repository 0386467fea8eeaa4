//! Tests of `run` and `exec` in the foreground: the runtime forwards signals to the container,
//! which has the stdin, stdout and stderr of the caller.

use super::{ScenarioRun, check_transparent, exit_status, path_str};
use nri_integration::*;
use rustix::process::Signal;

/// Script that prints each signal it receives, and exits with 9 at SIGTERM.
const SCRIPT: &str = "for s in HUP INT USR1 USR2 WINCH; do trap \"echo got $s\" $s; done; trap \
    'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.05; done";

fn run(scenario: &ScenarioRun, id: &str, arguments: &[&str]) -> super::Running {
    let bundle = scenario.node.bundle(id).arguments(arguments).make();
    let mut command = scenario.command();
    command.args(["run", "--bundle", path_str(bundle.dir()), id]);
    scenario.spawn_in_background(command, id)
}

#[test]
fn signals_to_a_foreground_wrapper_reach_the_container() {
    check_transparent("signals in the foreground", |scenario| {
        let id = scenario.node.id("c");
        let running = run(scenario, &id, &["/bin/sh", "-c", SCRIPT]);
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
        scenario.note("run", running.wait_for_exit());
        wait_until("the container to be deleted", || {
            scenario.node.state(&id).is_none().then_some(())
        });
    });
}

#[test]
fn a_killed_foreground_container_is_transparent() {
    check_transparent("killed in the foreground", |scenario| {
        for signal in ["KILL", "9", "SIGKILL"] {
            let id = scenario.node.id("c");
            let running = run(scenario, &id, &["/bin/sh", "-c", SCRIPT]);
            running.wait_for("ready");
            scenario.call_and_note(&["kill", &id, signal]);
            scenario.note(signal, running.wait_for_exit());
            wait_until("the container to be deleted", || {
                scenario.node.state(&id).is_none().then_some(())
            });
        }
    });
}

#[test]
fn signals_to_a_foreground_exec_reach_its_process() {
    check_transparent("signals to exec", |scenario| {
        let id = scenario.start_waiting_container("c");
        let mut command = scenario.command();
        command.args(["exec", &id, "/bin/sh", "-c", SCRIPT]);
        let running = scenario.spawn_in_background(command, "exec");
        running.wait_for("ready");
        running.process().signal(Signal::USR1);
        running.wait_for("got USR1\n");
        running.process().signal(Signal::TERM);
        scenario.note("exec", running.wait_for_exit());
        scenario.note("the container", exit_status(&scenario.call(&["exec", &id, "/bin/true"])));
    });
}

#[test]
fn stdin_stdout_and_stderr_are_transparent() {
    check_transparent("stdio", |scenario| {
        let id = scenario.node.id("c");
        let script = "cat; echo error >&2; exit 4";
        let bundle = scenario.node.bundle(&id).arguments(&["/bin/sh", "-c", script]).make();
        std::fs::write(scenario.node.path("input"), "some\0input\n").unwrap();
        for verb in ["run", "exec"] {
            let input = std::fs::File::open(scenario.node.path("input")).unwrap();
            let mut command = scenario.command();
            if verb == "run" {
                command.args(["run", "--bundle", path_str(bundle.dir()), &id]);
            } else {
                command.args([
                    "exec",
                    &scenario.start_waiting_container("d"),
                    "/bin/sh",
                    "-c",
                    script,
                ]);
            }
            command.stdin(input);
            let ended = scenario.node.run(command);
            scenario.note(verb, super::status_and_output(&ended));
            assert_eq!(
                (ended.code, ended.out().as_str()),
                (Some(4), "some\0input\n"),
                "{}",
                ended.err()
            );
        }
    });
}
