//! Crash points: in the life cycle of a container on real runc, one of `nrid`, the wrapper, both,
//! the real runtime with its wrapper, and a starting `nrid` is killed before each change that it
//! makes outside of itself. Afterwards the next verb must work and start `nrid` again; host,
//! records and plugins must agree; no file may be partly written, and after the life cycle nothing
//! may be left.
//!
//! By default a sample of the points is tested. `NRI_CRASH_POINTS=all` (`make crash-points`) tests
//! all points and prints each; `NRI_CRASH_POINTS='nrid 17'`, `wrapper create` … tests one point or
//! a group. `crash_at/points.rs` defines the changes, `drive.rs` the life cycle, `engine.rs` the
//! retry of a failed verb, `host.rs` and `leftovers.rs` the checks.

mod drive;
mod engine;
mod host;
mod leftovers;
mod life_cycle;
mod point;
mod regressions;
mod starting;
mod step;

use host::Host;
use nri_integration::*;
use point::Choice;
use std::collections::{BTreeMap, BTreeSet};

/// Number of life cycles on one host, limited because journals grow.
const LIFE_CYCLES_PER_HOST: usize = 25;

/// Returns the runtime and the Go plugin that these tests need; `None` after a skip.
fn requirements(test: &str) -> Option<(&'static Runtime, Program)> {
    if !is_root() {
        skip(test, "not root");
        return None;
    }
    if let Err(why) = can_crash() {
        skip(test, &why);
        return None;
    }
    let go = go(test)?;
    let runtime = runtimes().0.iter().find(|runtime| runtime.name == "runc");
    if runtime.is_none() {
        skip(test, "no runc that can run a container");
    }
    Some((runtime?, go))
}

#[test]
fn a_crash_at_any_point_loses_no_container_and_no_event() {
    let Some((runtime, go)) = requirements("crash points") else { return };
    let mut host = Host::new(runtime, &go);
    let counts = drive::count(&mut host);
    assert_eq!(
        host.take_wrong(),
        [""; 0],
        "in a life cycle without a crash; history:\n{}",
        host.history()
    );
    let choice = Choice::from_environment();
    let (mut passed, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut killed, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (n, point) in choice.points(&counts).iter().enumerate() {
        if passed.contains(&point.group()) {
            continue;
        }
        if n % LIFE_CYCLES_PER_HOST == LIFE_CYCLES_PER_HOST - 1 {
            host = Host::new(runtime, &go);
        }
        let prevented = drive::run(&mut host, point);
        *killed.entry(point.victim).or_insert(0) += usize::from(prevented.is_some());
        if prevented.is_none() {
            passed.insert(point.group());
        }
        for (step, n) in host.take_failed() {
            *failed.entry(step).or_insert(0) += n;
        }
        let reported = format!("{point}: {}", prevented.as_deref().unwrap_or("not reached"));
        if choice.is_verbose() {
            println!("{reported}");
        }
        let found = host.take_wrong();
        if !found.is_empty() {
            println!("WRONG {reported}: {found:#?}\n-- history:\n{}", host.history());
            wrong.extend(found.into_iter().map(|defect| format!("{reported}: {defect}")));
            host = Host::new(runtime, &go);
        }
    }
    println!("points: {counts:?}; killed: {killed:?}; failed and retried: {failed:?}");
    assert!(wrong.is_empty(), "{} defects:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!killed.is_empty() && killed.values().all(|n| *n > 0), "{killed:?}");
}
