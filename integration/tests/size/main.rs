//! Tests with many real containers. The defaults are small; environment variables set the numbers.
//!
//! `NRI_SIZE_CONTAINERS=2000` is the number of containers that exist at a time
//! (`make test-size`); `NRI_SOAK_LIVES=20000` and `NRI_SOAK_SECONDS=2400` are the number of
//! containers that exist one after the other, and the time over which they are spread
//! (`make soak`). The tests use one runtime: crun if it can run containers, since it needs the
//! fewest resources.

mod at_once;
mod engine;
mod soak;

use nri_integration::{Runtime, runtimes, skip};

/// Returns the number in an environment variable, or `default` if the variable is not set.
fn number_from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// Returns the runtime that needs the fewest resources; records a skip if no runtime is usable.
fn small_runtime(test: &str) -> Option<&'static Runtime> {
    let (usable, unfit) = runtimes();
    let found = usable.iter().find(|r| r.name == "crun").or(usable.first());
    if found.is_none() {
        let reasons: Vec<_> = unfit.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        skip(test, &reasons.join("; "));
    }
    found
}
