//! Describes the machine and the programs of a run.

use crate::bench::Bench;
use nri_bench::machine::version;
use std::path::Path;

/// Returns the description as pairs of name and text.
pub(crate) fn describe(bench: &Bench) -> Vec<(&'static str, String)> {
    let form = if bench.options.is_quick { "short" } else { "full" };
    let mut all = nri_bench::machine::describe(form);
    all.extend(bench.peers.runtimes.iter().map(|r| (r.name, version(&r.path, "--version"))));
    all.push(("Go", version(Path::new("go"), "version")));
    all.push(("rustc", version(Path::new("rustc"), "--version")));
    all.retain(|(_, text)| !text.is_empty());
    all
}
