//! The `nrid` of the other release finishes the verbs that are in progress when `nrid` is killed.

use super::{
    Release,
    fleet::{Fleet, MEMORY},
    for_each_takeover,
};
use nri_integration::*;
use rustix::process::Signal;

/// Starts a verb and kills `nrid`, with `wrapper_too` also the wrapper, while the runtime pauses;
/// then starts the `nrid` of the other release and resumes the runtime.
fn interrupt(fleet: &Fleet, to: &Release, arguments: &[&str], wrapper_too: bool) {
    let node = &fleet.node;
    let paused = PausedRuntime::new(node);
    let mut command = node.wrapper_of(&paused.runtime);
    let mut wrapper = command.args(arguments).spawn().unwrap();
    paused.wait_for_pause();
    if wrapper_too {
        Process(wrapper.id()).signal(Signal::KILL);
        wrapper.wait().unwrap();
    }
    node.kill_nrid();
    node.upgrade(&to.dir);
    node.ctl(&["start"]).success();
    paused.resume();
    let status = wrapper.wait().unwrap();
    assert_eq!(status.success(), !wrapper_too, "{arguments:?}: {status}");
}

#[test]
fn an_update_in_progress_when_nrid_is_killed_is_finished_by_the_next_one() {
    for_each_takeover("update in progress", |runtime, from, to| {
        for wrapper_too in [false, true] {
            let fleet = Fleet::new(runtime, from);
            let container = fleet.running("c", None);
            fleet.check_update(&container.id, "100663296");
            let update =
                ["update", "--memory", MEMORY, "--memory-swap", MEMORY, container.id.as_str()];
            interrupt(&fleet, to, &update, wrapper_too);
            // This update repeats all effective values, so a wrong recorded limit would be written.
            fleet.node.call(&["update", "--cpu-share", "200", &container.id]).success();
            fleet.check_limits(&container.id, MEMORY);
            fleet.end(&container);
            fleet.check_nothing_left();
        }
    });
}

#[test]
fn a_creation_in_progress_when_nrid_is_killed_is_finished_by_the_next_one() {
    for_each_takeover("creation in progress", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let container = fleet.bundle("c", None);
        let dir = container.bundle.dir().to_str().unwrap();
        interrupt(&fleet, to, &["create", "--bundle", dir, &container.id], false);
        fleet.node.call(&["start", &container.id]).success();
        fleet.check_exec(&container.id);
        fleet.check_update(&container.id, MEMORY);
        fleet.end(&container);
        fleet.check_nothing_left();
    });
}

#[test]
fn a_creation_whose_wrapper_is_killed_too_is_rolled_back_by_the_next_nrid() {
    for_each_takeover("creation rolled back", |runtime, from, to| {
        let fleet = Fleet::new(runtime, from);
        let container = fleet.bundle("c", None);
        let dir = container.bundle.dir().to_str().unwrap();
        interrupt(&fleet, to, &["create", "--bundle", dir, &container.id], true);
        fleet.check_restored(&container);
        fleet.check_nothing_left();
    });
}
