//! Regression tests of defects that crash points revealed.

use crate::{
    drive,
    host::Host,
    point::{Point, Victim},
    requirements,
    step::Step,
};

fn host(test: &str) -> Option<Host> {
    requirements(test).map(|(runtime, go_plugin)| Host::new(runtime, &go_plugin))
}

/// Deadlock: the next `nrid` held the container lock while it waited for the wrapper to end, and
/// the wrapper, which had repeated its request, waited for the lock.
#[test]
fn the_wrapper_repeats_an_update_that_a_killed_nrid_did_not_answer() {
    let Some(host) = host("repeated update") else { return };
    for at in 1.. {
        let crash = host.node.crash("nrid", at, None);
        let traced_nrid = crash.trace(host.node.nrid().expect("nrid runs"));
        // A new limit each time, so that each call changes the limit.
        let limit = (900 + at).to_string();
        let ended = host.node.call(&["update", "--pids-limit", &limit, &host.neighbor]);
        drop(traced_nrid);
        assert_eq!(ended.code, Some(0), "{:?}: {}", crash.points(), ended.err());
        assert_eq!(host.node.cgroup_file(&host.neighbor, "pids", "pids.max", "pids.max"), limit);
        if crash.killed_before().is_none() {
            // An update makes at least 8 changes: several for the record of the pending update and
            // for the record of its result, and two replies to the wrapper.
            assert!(at > 8, "fewer than 8 changes were counted: {:?}", crash.points());
            return;
        }
        host.node.ctl(&["start"]).success();
        let verified = host.node.ctl(&["verify"]);
        assert_eq!(verified.code, Some(0), "{:?}: {}", crash.killed_before(), verified.out());
    }
}

/// Plugins received StartContainer twice: the wrapper was killed after they had handled the start
/// and before it called the runtime, and the engine started the container again.
#[test]
fn plugins_are_notified_once_of_an_interrupted_start() {
    let Some(mut host) = host("interrupted start") else { return };
    // The third change of `start` is the execve of the runtime.
    let point = Point { victim: Victim::Wrapper, step: Some(Step::Start), at: 3 };
    let killed = drive::run(&mut host, &point);
    assert!(killed.as_ref().is_some_and(|change| change.contains("execve")), "{killed:?}");
    assert_eq!(host.take_defects(), [""; 0], "history:\n{}", host.history());
}
