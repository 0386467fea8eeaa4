//! Upgrade and downgrade: the programs built with this test take over containers, records, sockets,
//! configuration and installations of an earlier release, and the earlier ones take over those of
//! this build.
//!
//! `NRI_TAKEOVER_BASE` names the directory of the earlier release's programs; without it, these
//! tests are skipped. `make test-takeover` builds the programs and sets it.

mod configuration;
mod fleet;
mod in_progress;
mod install;
mod mixed;
mod states;

use nri_integration::*;
use std::path::PathBuf;

/// Programs of one release.
struct Release {
    name: &'static str,
    dir: PathBuf,
}

/// Returns the earlier release and the one under test; `None` after a skip.
fn releases(test: &str) -> Option<[Release; 2]> {
    let Some(dir) = std::env::var_os("NRI_TAKEOVER_BASE") else {
        limitation(test, "no earlier release; make test-takeover builds one");
        return None;
    };
    let current = program_dir();
    Some([Release { name: "earlier", dir: dir.into() }, Release { name: "current", dir: current }])
}

/// Runs `test` in both directions: from the earlier release to the current one, and back.
fn for_each_direction(name: &str, test: impl Fn(&Release, &Release)) {
    let Some([earlier, current]) = releases(name) else { return };
    for (from, to) in [(&earlier, &current), (&current, &earlier)] {
        eprintln!("-- {name}: from the {} release to the {} one", from.name, to.name);
        test(from, to);
    }
}

/// Runs `test` with each runtime and in both directions.
fn for_each_takeover(name: &str, test: impl Fn(&Runtime, &Release, &Release)) {
    for_each_direction(name, |from, to| for_each_runtime(name, |runtime| test(runtime, from, to)));
}
