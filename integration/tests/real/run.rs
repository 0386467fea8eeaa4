//! Tests of `run`: the wrapper executes the runtime in its own process, so that it cannot report
//! later events. The injected hooks report them, and `nrid` detects the exit.

use nri_integration::*;
use std::process::Command;

fn run(node: &Node, options: &[&str], bundle: &Bundle, id: &str) -> Command {
    let mut command = node.wrapper();
    command.arg("run").args(options).arg("--bundle").arg(bundle.dir()).arg(id);
    command
}

#[test]
fn a_foreground_run_has_all_events_and_the_exit_code() {
    for_each_runtime("run", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", "echo A=$A; exit 7"]).make();
        let original = bundle.bytes();
        for _ in 0..2 {
            // A user may run the same bundle under the same id again.
            let ended = node.run(run(&node, &[], &bundle, &id));
            assert_eq!((ended.code, ended.out().trim()), (Some(7), "A=b"), "{}", ended.err());
        }
        let twice = [life_cycle(&[]), life_cycle(&[])].concat();
        wait_until("the events of both runs", || {
            (journal.events(&id).len() >= twice.len()).then_some(())
        });
        assert_eq!(journal.events(&id), twice);
        assert_eq!(bundle.bytes(), original);
        assert_eq!(node.status().unwrap()["containers"], 0);
    });
}

#[test]
fn a_detached_run_has_all_events() {
    for_each_runtime("run --detach", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let original = bundle.bytes();
        let ran = node.run(run(&node, &["--detach"], &bundle, &id)).success();
        wait_until("the probe", || ran.out().contains("ready=1").then_some(()));
        node.call(&["kill", &id, "TERM"]).success();
        journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}

/// BuildKit calls `run --keep`, and may call it with an empty environment.
#[test]
fn a_run_with_keep_and_an_empty_environment_has_all_events() {
    for_each_runtime("run --keep", |runtime| {
        let node = Node::new(runtime);
        let journal =
            node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", "echo A=$A; exit 7"]).make();
        let original = bundle.bytes();
        let without_variables = |mut command: Command| {
            command.env_clear();
            node.run(command)
        };
        // Older versions of crun lack `--keep`.
        let mut help = runtime.command(&node.root());
        help.args(["run", "--help"]);
        let keeps = node.run(help).out().contains("--keep");
        let options: &[&str] = if keeps { &["--keep"] } else { &[] };
        let ended = without_variables(run(&node, options, &bundle, &id));
        assert_eq!((ended.code, ended.out().trim()), (Some(7), "A=b"), "{}", ended.err());
        journal.wait_for("StopPodSandbox", &id);
        if keeps {
            assert_eq!(node.state(&id).unwrap()["status"], "stopped");
            assert_eq!(
                journal.events(&id).last().unwrap(),
                "StopPodSandbox",
                "an event was sent after StopPodSandbox, before the delete"
            );
        } else {
            limitation("run --keep", &format!("{} has no such option", runtime.name));
        }
        let mut delete = node.wrapper();
        delete.args(["delete", "--force", &id]);
        without_variables(delete).success();
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(bundle.bytes(), original);
    });
}

#[test]
fn a_run_that_the_runtime_refuses_is_rolled_back() {
    for_each_runtime("failed run", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/nonexistent/program"]).make();
        let original = bundle.bytes();
        let ended = node.run(run(&node, &[], &bundle, &id));
        assert!(ended.code.is_some_and(|c| c != 0), "{ended:?}");
        assert!(ended.err().contains("/nonexistent/program"), "{}", ended.err());
        // The wrapper has executed the runtime and cannot report the failure. nrid detects the
        // failure by itself, or at the `delete` that engines call.
        node.call(&["delete", "--force", &id]);
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(bundle.bytes(), original);
        assert_eq!(node.status().unwrap()["containers"], 0);
    });
}
