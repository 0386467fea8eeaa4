//! Crash points: `nrid`, the wrapper, both, the real runtime with its wrapper, and an `nrid` that
//! starts are killed before each change that they make outside of themselves, in the life cycle of
//! a container on real runc. Afterwards the next verb works and starts `nrid` again; host, records
//! and plugins agree; no file is half written; in the end nothing is left.
//!
//! A sample of the points, by their numbers; `NRI_CRASH_POINTS=all` (`make crash-points`) takes all
//! of them and says where it is; `NRI_CRASH_POINTS='nrid 17'`, `wrapper create` … takes one, or
//! those of a group. `crash_at/points.rs` has what counts as a change, `drive.rs` the life cycle,
//! `engine.rs` what an engine does when a verb fails, `host.rs` and `leftovers.rs` what must hold.

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

/// Life cycles on one host: journals grow.
const LIVES: usize = 25;

/// The runtime and the Go plugin that these tests need; none is a skip.
fn means(test: &str) -> Option<(&'static Runtime, Program)> {
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
        skip(test, "no runc that works");
    }
    Some((runtime?, go))
}

#[test]
fn a_crash_at_any_point_loses_nothing() {
    let Some((runtime, go)) = means("crash points") else { return };
    let mut host = Host::new(runtime, &go);
    let counts = drive::count(&mut host);
    assert_eq!(
        host.take_wrong(),
        [""; 0],
        "in a life without any crash; done:\n{}",
        host.history()
    );
    let choice = Choice::from_environment();
    let (mut passed, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut killed, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (n, point) in choice.points(&counts).iter().enumerate() {
        if passed.contains(&point.group()) {
            continue;
        }
        if n % LIVES == LIVES - 1 {
            host = Host::new(runtime, &go);
        }
        let what = drive::live(&mut host, point);
        *killed.entry(point.victim).or_insert(0) += usize::from(what.is_some());
        if what.is_none() {
            passed.insert(point.group());
        }
        for (step, n) in host.take_failed() {
            *failed.entry(step).or_insert(0) += n;
        }
        let reported = format!("{point}: {}", what.as_deref().unwrap_or("not reached"));
        if choice.is_verbose() {
            println!("{reported}");
        }
        let found = host.take_wrong();
        if !found.is_empty() {
            println!("WRONG {reported}: {found:#?}\n-- done:\n{}", host.history());
            wrong.extend(found.into_iter().map(|what| format!("{reported}: {what}")));
            host = Host::new(runtime, &go);
        }
    }
    println!("points: {counts:?}; killed: {killed:?}; failed and made again: {failed:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!killed.is_empty() && killed.values().all(|n| *n > 0), "{killed:?}");
}
