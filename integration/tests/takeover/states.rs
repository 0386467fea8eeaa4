//! Tests that an `nrid` of the other release takes over containers in every state, after a restart,
//! a stop or a kill of the running `nrid`.

use super::{
    Release,
    fleet::{Fleet, MEMORY},
    for_each_takeover,
};
use nri_integration::*;
use std::{fs, os::unix::fs::MetadataExt, path::Path, thread};

/// Ways in which `nrid` is replaced.
#[derive(Debug, Clone, Copy)]
enum Replacement {
    /// `nrictl restart`, which keeps the process and its sockets.
    Restart,
    /// `nrictl stop`, then `nrictl start`.
    Stop,
    /// SIGKILL, then `nrictl start`.
    Kill,
}

impl Replacement {
    /// Replaces `nrid`, and checks that the installed program runs.
    fn perform(self, node: &Node) {
        match self {
            Self::Restart => {
                let inode = |socket: &str| inode(&node.state_dir().join(socket));
                let before = (node.nrid(), inode("control.sock"), inode("nri.sock"));
                node.ctl(&["restart"]).success();
                let after = (node.nrid(), inode("control.sock"), inode("nri.sock"));
                assert_eq!(after, before, "the process or a socket was replaced");
            }
            Self::Stop => drop(node.ctl(&["stop"]).success()),
            Self::Kill => node.kill_nrid(),
        }
        node.ctl(&["start"]).success();
        let nrid = node.nrid().expect("nrid was started");
        let exe = inode(Path::new(&format!("/proc/{}/exe", nrid.0)));
        assert_eq!(
            exe,
            inode(&node.program("nrid")),
            "nrid runs another program than the installed one"
        );
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).ino()
}

#[test]
fn containers_in_every_state_are_taken_over_after_nrictl_restart() {
    for_each_takeover("takeover by restart", |runtime, from, to| {
        take_over(runtime, from, to, Replacement::Restart);
    });
}

#[test]
fn containers_in_every_state_are_taken_over_after_nrictl_stop() {
    for_each_takeover("takeover by stop", |runtime, from, to| {
        take_over(runtime, from, to, Replacement::Stop);
    });
}

#[test]
fn containers_in_every_state_are_taken_over_after_a_kill_of_nrid() {
    for_each_takeover("takeover by kill", |runtime, from, to| {
        take_over(runtime, from, to, Replacement::Kill);
    });
}

/// Creates containers in every state with the programs of `from`, replaces `nrid` by the `nrid` of
/// `to`, and checks all further verbs, the plugins' views and the removal.
fn take_over(runtime: &Runtime, from: &Release, to: &Release, replacement: Replacement) {
    let fleet = Fleet::new(runtime, from);
    let node = &fleet.node;
    let created = fleet.create("created");
    let running = fleet.run("running", None);
    let updated = fleet.run("updated", None);
    fleet.check_update(&updated.id, MEMORY);
    let pod = node.id("pod");
    let sandbox = fleet.run("pod", Some((&pod, "sandbox")));
    let member = fleet.run("member", Some((&pod, "container")));
    let ended = fleet.run("ended", None);
    node.call(&["kill", &ended.id, "KILL"]).success();
    Journal::new(&fleet.session()).wait_for("StopContainer", &ended.id);
    let [detached, foreground] = ["detached", "foreground"].map(|name| fleet.bundle(name, None));
    let dir = |bundle: &Bundle| bundle.dir().to_str().unwrap().to_owned();
    node.call(&["run", "--detach", "--bundle", &dir(&detached.bundle), &detached.id]).success();
    let bundle = dir(&foreground.bundle);
    thread::scope(|scope| {
        let call = scope.spawn(|| node.call(&["run", "--bundle", &bundle, &foreground.id]));
        Journal::new(&fleet.session()).wait_for("PostStartContainer", &foreground.id);

        node.upgrade(&to.dir);
        replacement.perform(node);

        let containers = [&created, &running, &updated, &member, &detached, &foreground];
        let pods = [&created, &running, &updated, &sandbox, &detached, &foreground];
        let journal = Journal::new(&fleet.session());
        fleet.check_view(&journal, &containers, &pods);
        let external = node.connect("20-external", &Program::Adjust, "");
        fleet.check_view(&external.journal, &containers, &pods);
        let mut verify = vec!["verify"];
        verify.extend(containers.iter().map(|container| container.id.as_str()));
        node.ctl(&verify).success();

        node.call(&["start", &created.id]).success();
        journal.wait_for("PostStartContainer", &created.id);
        fleet.check_limits(&updated.id, MEMORY);
        for container in containers {
            fleet.check_exec(&container.id);
            fleet.check_update(&container.id, "100663296");
            journal.wait_for("PostUpdateContainer", &container.id);
        }
        node.call(&["kill", &foreground.id, "KILL"]).success();
        assert_eq!(call.join().unwrap().code, Some(128 + 9));
        fleet.check_bundle(&foreground);
        for container in [&created, &running, &updated, &member, &sandbox, &detached] {
            fleet.remove(container);
        }
        node.call(&["delete", &ended.id]).success();
        fleet.check_bundle(&ended);
        journal.wait_for("RemoveContainer", &ended.id);
        fleet.check_nothing_left();
    });
}
