//! Regression tests of defects that crash points revealed.

use crate::{
    drive,
    host::Host,
    point::{Point, Victim},
    requirements,
    step::Step,
};

fn host(test: &str) -> Option<Host> {
    requirements(test).map(|(runtime, go)| Host::new(runtime, &go))
}

/// The next `nrid` held the container lock while it waited for the wrapper to end, and the wrapper,
/// which had repeated its request, waited for the lock.
#[test]
fn the_wrapper_repeats_an_update_that_a_killed_nrid_did_not_answer() {
    let Some(host) = host("repeated update") else { return };
    for at in 1.. {
        let crash = host.node.crash("nrid", at, None);
        let following = crash.follow(host.node.nrid().expect("nrid runs"));
        let limit = (900 + at).to_string();
        let ended = host.node.call(&["update", "--pids-limit", &limit, &host.neighbour]);
        drop(following);
        assert_eq!(ended.code, Some(0), "{:?}: {}", crash.points(), ended.err());
        assert_eq!(host.node.cgroup_file(&host.neighbour, "pids", "pids.max", "pids.max"), limit);
        if crash.killed().is_none() {
            // The changes include the record of the update in progress, that of its result, and two
            // replies.
            assert!(at > 8, "{:?}", crash.points());
            return;
        }
        host.node.ctl(&["start"]).success();
        let verified = host.node.ctl(&["verify"]);
        assert_eq!(verified.code, Some(0), "{:?}: {}", crash.killed(), verified.out());
    }
}

/// The wrapper was killed after the plugins had handled the start and before it called the runtime.
#[test]
fn an_interrupted_start_is_notified_once() {
    let Some(mut host) = host("interrupted start") else { return };
    let point = Point { victim: Victim::Wrapper, step: Some(Step::Start), at: 3 };
    let killed = drive::run(&mut host, &point);
    assert!(killed.as_ref().is_some_and(|change| change.contains("clone")), "{killed:?}");
    assert_eq!(host.take_wrong(), [""; 0], "history:\n{}", host.history());
}
