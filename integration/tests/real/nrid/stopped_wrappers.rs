//! Tests of wrappers that are stopped (SIGSTOP) in a verb, which must not hold the id for ever.

use nri_integration::*;
use rustix::process::Signal;
use std::{
    process::{Child, Command},
    thread,
};

/// A verb whose wrapper is stopped while its runtime pauses.
struct Stopped<'a> {
    node: &'a Node,
    paused: PausedRuntime,
    wrapper: Child,
}

impl<'a> Stopped<'a> {
    /// Calls a verb with a runtime that pauses before it, and stops the wrapper.
    fn new(node: &'a Node, verb: &str, call: impl FnOnce(&mut Command)) -> Self {
        for file in ["paused", "resumed"] {
            std::fs::remove_file(node.path(file)).ok();
        }
        let paused = PausedRuntime::with_cases(node, &format!("{verb}) pause ;;"));
        let mut command = node.wrapper_of(&paused.runtime);
        call(command.arg(verb));
        let wrapper = command.spawn().unwrap();
        paused.wait_for_pause();
        Process(wrapper.id()).signal(Signal::STOP);
        Self { node, paused, wrapper }
    }

    /// Deletes the container by force, which kills the wrapper. Then lets the runtime go on, if it
    /// still runs, and checks that a container of the same id has the adjustment.
    fn check_forced_delete(mut self, id: &str) {
        let node = self.node;
        node.call(&["delete", "--force", id]).success();
        let status = self.wrapper.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        self.paused.resume();
        assert_eq!(node.state(id), None);
        wait_until("the removal of the record", || {
            (node.status()?["containers"] == 0).then_some(())
        });
        node.create(&bundle(node, id), id).success();
        assert_eq!(node.adjusted(id)["process"]["env"][2], "A=b");
        node.call(&["start", id]).success();
        assert_eq!(node.status().unwrap()["containers"], 1);
        node.call(&["delete", "--force", id]).success();
    }
}

fn node(runtime: &Runtime) -> Node {
    let node = Node::new(runtime);
    node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
    node
}

fn bundle(node: &Node, id: &str) -> Bundle {
    node.bundle(id).arguments(&["/bin/sleep", "1000"]).make()
}

#[test]
fn a_forced_delete_ends_a_creation_whose_wrapper_is_stopped() {
    for_each_runtime("stopped wrapper, create", |runtime| {
        let node = node(runtime);
        let id = node.id("c");
        let bundle = bundle(&node, &id);
        let stopped = Stopped::new(&node, "create", |call| {
            call.arg("--bundle").arg(bundle.dir()).arg(&id);
        });
        stopped.check_forced_delete(&id);
    });
}

#[test]
fn a_forced_delete_ends_a_creation_of_the_previous_nrid_and_a_run_and_a_start() {
    for_each_runtime("stopped wrapper, other verbs", |runtime| {
        let node = node(runtime);
        let [created, run, started] = ["created", "run", "started"].map(|name| node.id(name));
        let dir = bundle(&node, &created);
        let stopped = Stopped::new(&node, "create", |call| {
            call.arg("--bundle").arg(dir.dir()).arg(&created);
        });
        node.kill_nrid();
        node.ctl(&["start"]).success();
        stopped.check_forced_delete(&created);

        let dir = bundle(&node, &run);
        let stopped = Stopped::new(&node, "run", |call| {
            call.arg("--detach").arg("--bundle").arg(dir.dir()).arg(&run);
        });
        stopped.check_forced_delete(&run);

        let dir = bundle(&node, &started);
        node.create(&dir, &started).success();
        let stopped = Stopped::new(&node, "start", |call| {
            call.arg(&started);
        });
        stopped.check_forced_delete(&started);
    });
}

#[test]
fn another_creation_is_refused_and_the_stopped_one_goes_on_when_it_is_continued() {
    for_each_runtime("stopped wrapper, create again", |runtime| {
        let node = node(runtime);
        let id = node.id("c");
        let bundle = bundle(&node, &id);
        let mut stopped = Stopped::new(&node, "create", |call| {
            call.arg("--bundle").arg(bundle.dir()).arg(&id);
        });
        let pid = stopped.wrapper.id();
        let expected = format!("process {pid} has begun a verb of this container, and is stopped");
        thread::scope(|scope| {
            let create = scope.spawn(|| node.create(&bundle, &id).refusal());
            let start = scope.spawn(|| node.call(&["start", &id]).refusal());
            for call in [create, start] {
                let refusal = call.join().unwrap();
                assert!(refusal.contains(&expected), "{refusal}");
            }
        });
        Process(pid).signal(Signal::CONT);
        stopped.paused.resume();
        assert!(stopped.wrapper.wait().unwrap().success());
        assert_eq!(node.adjusted(&id)["process"]["env"][2], "A=b");
        node.call(&["start", &id]).success();
        node.call(&["delete", "--force", &id]).success();
    });
}
