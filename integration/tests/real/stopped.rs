//! Calls for something that has ended or already runs: an update of a stopped container, a second
//! `nrid`.

use nri_integration::*;
use std::time::{Duration, Instant};

#[test]
fn an_update_of_a_stopped_container_is_not_notified() {
    let Some(go) = go("update of a stopped container") else { return };
    for_each_runtime("update of a stopped container", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-observer", &go, "{}");
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

/// A second `nrid` that waited, for example one whose wrapper was killed meanwhile, would take over
/// when the first one is stopped.
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
        let said = node.run(second);
        wait_until("the message of the second", || (!said.out().is_empty()).then_some(()));
        assert!(said.out().contains("runs already"), "{}", said.out());
        // `start_timeout` is 20 s: for so long a second nrid waits for a first one that is ending.
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        node.ctl(&["stop"]).success();
        // The process of the first may still be exiting; a second that took over would stay.
        wait_until("both to exit", || node.nrids().is_empty().then_some(()));
    });
}
