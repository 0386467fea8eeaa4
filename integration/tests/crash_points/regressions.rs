//! Defects that were found at a crash point.

use crate::{
    drive,
    host::Host,
    means,
    point::{Point, Victim},
    step::Step,
};

fn host(test: &str) -> Option<Host> {
    means(test).map(|(runtime, go)| Host::new(runtime, &go))
}

/// The next `nrid` held the container lock and waited for the wrapper's end, and the wrapper, which
/// had sent its request again, for the lock.
#[test]
fn an_update_without_an_answer_is_requested_again() {
    let Some(host) = host("an update that was not answered") else { return };
    for at in 1.. {
        let crash = host.node.crash("nrid", at, None);
        let following = crash.follow(host.node.nrid().expect("it runs"));
        let limit = (900 + at).to_string();
        let ended = host.node.call(&["update", "--pids-limit", &limit, &host.neighbour]);
        drop(following);
        assert_eq!(ended.code, Some(0), "{:?}: {}", crash.points(), ended.err());
        assert_eq!(host.node.cgroup_file(&host.neighbour, "pids", "pids.max", "pids.max"), limit);
        if crash.killed().is_none() {
            // The record that it is in progress, that it was made, two answers.
            assert!(at > 8, "{:?}", crash.points());
            return;
        }
        host.node.ctl(&["start"]).success();
        let verified = host.node.ctl(&["verify"]);
        assert_eq!(verified.code, Some(0), "{:?}: {}", crash.killed(), verified.out());
    }
}

/// The wrapper was killed after plugins had agreed, and before the runtime began.
#[test]
fn an_interrupted_start_is_notified_once() {
    let Some(mut host) = host("a start that was cut short") else { return };
    let point = Point { victim: Victim::Wrapper, step: Some(Step::Start), at: 3 };
    let killed = drive::live(&mut host, &point);
    assert!(killed.as_ref().is_some_and(|what| what.contains("clone")), "{killed:?}");
    assert_eq!(host.take_wrong(), [""; 0], "done:\n{}", host.history());
}
