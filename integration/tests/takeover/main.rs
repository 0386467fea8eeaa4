//! Tests of upgrade and downgrade between the programs built with this test and those of an earlier
//! release: in each direction, the new programs take over the containers, records, sockets,
//! configuration and installations of the replaced programs.
//!
//! `NRI_TAKEOVER_BASE` names the directory with the source of the earlier release and the target
//! directory of its build; these tests are skipped if it is not set. `make test-takeover` makes
//! that directory and sets the variable.

mod configuration;
mod fleet;
mod in_progress;
mod install;
mod mixed;
mod states;

use nri_integration::*;
use std::path::PathBuf;

/// One release.
struct Release {
    name: &'static str,
    /// Directory of its programs.
    dir: PathBuf,
    /// Its source.
    source: PathBuf,
}

/// Returns the earlier release and the release under test; `None` if the test is skipped.
fn releases(test: &str) -> Option<[Release; 2]> {
    let Some(base) = std::env::var_os("NRI_TAKEOVER_BASE").map(PathBuf::from) else {
        limitation(test, "no earlier release; make test-takeover builds one");
        return None;
    };
    let earlier =
        Release { name: "earlier", dir: base.join("target/debug"), source: base.join("source") };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/..").into();
    Some([earlier, Release { name: "current", dir: program_dir(), source }])
}

/// Runs `test` twice: for the upgrade from the earlier to the current release, and for the
/// downgrade.
fn for_each_direction(name: &str, test: impl Fn(&Release, &Release)) {
    let Some([earlier, current]) = releases(name) else { return };
    for (from, to) in [(&earlier, &current), (&current, &earlier)] {
        eprintln!("-- {name}: from the {} to the {} release", from.name, to.name);
        test(from, to);
    }
}

/// Runs `test` with each runtime, for the upgrade and for the downgrade.
fn for_each_takeover(name: &str, test: impl Fn(&Runtime, &Release, &Release)) {
    for_each_direction(name, |from, to| for_each_runtime(name, |runtime| test(runtime, from, to)));
}
