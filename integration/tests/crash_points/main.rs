//! Crash points: these tests run life cycles of a container on real runc, and kill a program before
//! it makes a change that other processes can see, such as a write to a file or a message. The
//! victim is `nrid`, the wrapper, `nrid` together with the wrapper, the real runtime together with
//! its wrapper, or an `nrid` that starts. After the crash, the next verb must succeed, and start
//! `nrid` if it does not run; host, records and plugins must agree, and no file may be partly
//! written. After the life cycle, no file, process, cgroup or mount may be left.
//!
//! By default a sample of the points is tested. `NRI_CRASH_POINTS=all` (`make crash-points`) tests
//! and prints all points; `NRI_CRASH_POINTS='nrid 17'` tests one point, and
//! `NRI_CRASH_POINTS='wrapper create'` tests the points of one victim and verb.
//! `crash_at/points.rs` defines the changes, `drive.rs` the life cycle, `engine.rs` the retry of a
//! failed verb, `host.rs` and `leftovers.rs` the checks.

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

/// Number of life cycles after which a new host is used: each check reads whole journals, which
/// grow with each life cycle.
const LIFE_CYCLES_PER_HOST: usize = 25;

/// Returns the runtime and the Go plugin that these tests need; `None` if the test is skipped.
fn requirements(test: &str) -> Option<(&'static Runtime, Program)> {
    if !is_root() {
        skip(test, "not root");
        return None;
    }
    if let Err(why) = check_tracing() {
        skip(test, &why);
        return None;
    }
    let go_plugin = go_plugin(test)?;
    let runtime = runtimes().0.iter().find(|runtime| runtime.name == "runc");
    if runtime.is_none() {
        skip(test, "no runc that can run a container");
    }
    Some((runtime?, go_plugin))
}

#[test]
fn a_crash_at_any_point_loses_no_container_and_no_event() {
    let Some((runtime, go_plugin)) = requirements("crash points") else { return };
    let mut host = Host::new(runtime, &go_plugin);
    let counts = drive::count(&mut host);
    assert_eq!(
        host.take_defects(),
        [""; 0],
        "defects in a life cycle without a crash; history:\n{}",
        host.history()
    );
    let choice = Choice::from_environment();
    let (mut completed, mut defects) = (BTreeSet::new(), Vec::new());
    let (mut killed, mut retried) = (BTreeMap::new(), BTreeMap::new());
    for (n, point) in choice.points(&counts).iter().enumerate() {
        // A smaller number of this group was not reached, so this number is not reached either.
        if completed.contains(&point.group()) {
            continue;
        }
        if n % LIFE_CYCLES_PER_HOST == LIFE_CYCLES_PER_HOST - 1 {
            host = Host::new(runtime, &go_plugin);
        }
        let prevented = drive::run(&mut host, point);
        *killed.entry(point.victim).or_insert(0) += usize::from(prevented.is_some());
        if prevented.is_none() {
            completed.insert(point.group());
        }
        for (step, n) in host.take_retried() {
            *retried.entry(step).or_insert(0) += n;
        }
        let result = format!("{point}: {}", prevented.as_deref().unwrap_or("not reached"));
        if choice.is_verbose() {
            println!("{result}");
        }
        let found = host.take_defects();
        if !found.is_empty() {
            println!("DEFECTS {result}: {found:#?}\n-- history:\n{}", host.history());
            defects.extend(found.into_iter().map(|defect| format!("{result}: {defect}")));
            host = Host::new(runtime, &go_plugin);
        }
    }
    println!("points: {counts:?}; killed: {killed:?}; failed and retried: {retried:?}");
    assert!(defects.is_empty(), "{} defects:\n{}", defects.len(), defects.join("\n"));
    assert!(
        !killed.is_empty() && killed.values().all(|n| *n > 0),
        "some victim was never killed: {killed:?}"
    );
}
