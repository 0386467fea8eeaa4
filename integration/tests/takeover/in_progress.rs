//! Tests that an `nrid` of one release finishes the verbs that are in progress when the `nrid` of
//! the other release is killed.

use super::{
    Release,
    fleet::{Fleet, MEMORY},
    for_each_takeover,
};
use nri_integration::*;
use rustix::process::Signal;

/// Starts a verb, and kills `nrid` and, with `kill_wrapper`, the wrapper while the runtime pauses.
/// Then starts the `nrid` of release `to` and resumes the runtime.
fn interrupt(fleet: &Fleet, to: &Release, arguments: &[&str], kill_wrapper: bool) {
    let node = &fleet.node;
    let paused = PausedRuntime::new(node);
    let mut command = node.wrapper_of(&paused.runtime);
    let mut wrapper = command.args(arguments).spawn().unwrap();
    paused.wait_for_pause();
    if kill_wrapper {
        Process(wrapper.id()).signal(Signal::KILL);
        wrapper.wait().unwrap();
    }
    node.kill_nrid();
    node.upgrade(&to.dir);
    node.ctl(&["start"]).success();
    paused.resume();
    let status = wrapper.wait().unwrap();
    assert_eq!(status.success(), !kill_wrapper, "{arguments:?}: {status}");
}

#[test]
fn an_update_in_progress_when_nrid_is_killed_is_finished_by_the_next_nrid() {
    for_each_takeover("update in progress", |runtime, from, to| {
        for kill_wrapper in [false, true] {
            let fleet = Fleet::new(runtime, from);
            let container = fleet.run("c", None);
            fleet.check_update(&container.id, "100663296");
            let update =
                ["update", "--memory", MEMORY, "--memory-swap", MEMORY, container.id.as_str()];
            interrupt(&fleet, to, &update, kill_wrapper);
            // The wrapper repeats all recorded values in this update, so that a wrong record would
            // change the memory limit.
            fleet.node.call(&["update", "--cpu-share", "200", &container.id]).success();
            fleet.check_limits(&container.id, MEMORY);
            fleet.remove(&container);
            fleet.check_nothing_left();
        }
    });
}

#[test]
fn a_creation_in_progress_when_nrid_is_killed_is_finished_by_the_next_nrid() {
    for_each_takeover("creation in progress", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let container = fleet.bundle("c", None);
        let dir = container.bundle.dir().to_str().unwrap();
        interrupt(&fleet, to, &["create", "--bundle", dir, &container.id], false);
        fleet.node.call(&["start", &container.id]).success();
        fleet.check_exec(&container.id);
        fleet.check_update(&container.id, MEMORY);
        fleet.remove(&container);
        fleet.check_nothing_left();
    });
}

#[test]
fn a_creation_is_rolled_back_by_the_next_nrid_if_its_wrapper_is_killed() {
    for_each_takeover("creation rolled back", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let container = fleet.bundle("c", None);
        let dir = container.bundle.dir().to_str().unwrap();
        interrupt(&fleet, to, &["create", "--bundle", dir, &container.id], true);
        fleet.check_bundle(&container);
        fleet.check_nothing_left();
    });
}
