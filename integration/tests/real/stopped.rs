//! Tests of an update of a stopped container, and of the start of a second `nrid`.

use nri_integration::*;
use std::time::{Duration, Instant};

#[test]
fn an_update_of_a_stopped_container_is_not_notified() {
    let Some(go_plugin) = go_plugin("update of a stopped container") else { return };
    for_each_runtime("update of a stopped container", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go_plugin, "{}");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        node.call(&["kill", &id, "KILL"]).success();
        plugin.journal.wait_for("StopPodSandbox", &id);
        let updated = node.call(&["update", "--pids-limit", "40", &id]);
        assert_eq!(updated.code, node.bare(&["update", "--pids-limit", "40", &id]).code);
        node.call(&["delete", &id]).success();
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), life_cycle(&[]));
    });
}

/// A second `nrid` must not wait for the end of the first one. Otherwise it would take the place of
/// the first one after `nrictl stop`.
#[test]
fn a_second_nrid_exits_at_once_while_the_first_one_replies() {
    for_each_runtime("a second nrid", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let nrid = node.nrid().unwrap();
        let mut second = std::process::Command::new(nrid.program().unwrap());
        second
            .arg("--background")
            .arg("--state-dir")
            .arg(node.state_dir())
            .arg("--config")
            .arg(node.config());
        let begin = Instant::now();
        let output = node.run(second);
        wait_until("the message of the second nrid", || (!output.out().is_empty()).then_some(()));
        assert!(output.out().contains("runs already"), "{}", output.out());
        // A second nrid waits up to `start_timeout`, 20 s, for a first one that is exiting.
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "the second nrid ended after {took:?}");
        node.ctl(&["stop"]).success();
        // The first nrid may still be exiting. If the second nrid had waited, it would keep
        // running.
        wait_until("both nrids to exit", || node.nrids().is_empty().then_some(()));
    });
}
