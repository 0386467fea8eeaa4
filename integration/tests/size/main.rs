//! Tests with many real containers. The defaults are small; environment variables set the numbers.
//!
//! `NRI_SIZE_CONTAINERS` is the number of containers that exist at the same time; `make test-size`
//! sets 2000. `NRI_SOAK_LIVES` is the number of containers that exist one after the other, and
//! `NRI_SOAK_SECONDS` is the time over which they are spread; `make soak` sets 20000 and 2400. The
//! tests use one runtime: crun if it can run containers, since crun needs the fewest resources.

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
