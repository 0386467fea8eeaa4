//! Waits for a condition, with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time limit of a wait, after which the test fails. Only a defect makes a wait take nearly this
/// long.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns [`TIMEOUT`], or five times as much if `NRI_TEST_SLOW` is set, as in slow virtual
/// machines.
pub(crate) fn timeout() -> Duration {
    if is_slow() { TIMEOUT * 5 } else { TIMEOUT }
}

/// Whether `NRI_TEST_SLOW` is set.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("NRI_TEST_SLOW").is_some()
}

/// Waits until `condition` returns a value.
///
/// # Panics
/// The condition is not met in time; the message contains `what`.
pub fn wait_until<T>(what: impl std::fmt::Display, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "timeout after {:?} while waiting for {what}",
            timeout()
        );
        thread::sleep(Duration::from_millis(5));
    }
}
