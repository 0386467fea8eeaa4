//! Verbs of a container that has exited are for the runtime to refuse, without events for plugins.

use nri_integration::*;
use std::time::{Duration, Instant};

#[test]
fn an_update_of_a_stopped_container_is_not_notified() {
    let Some(go) = go("update of a stopped container") else { return };
    for_each_runtime("update of a stopped container", |runtime| {
        let node = Node::new(runtime);
        node.ctl(&["start"]).success();
        let plugin = node.connect("10-hears", &go, "{}");
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

/// One that was started by a wrapper that was killed then would take over from the one that is told
/// to stop.
#[test]
fn a_second_nrid_does_not_wait_for_one_that_answers() {
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
        wait_until("its word", || (!said.out().is_empty()).then_some(()));
        assert!(said.out().contains("runs already"), "{}", said.out());
        // `start_timeout`, for which it would wait for one that is ending, is 20 s.
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        node.ctl(&["stop"]).success();
        // The first is done, but its process may still be ending; a second that had taken over
        // would stay.
        wait_until("the end of both", || node.nrids().is_empty().then_some(()));
    });
}
