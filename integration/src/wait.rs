//! Waiting for things.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Time after which a test gives up. Generous: a test waits so long only if something is wrong.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// [`TIMEOUT`], or more of it in a guest where all is slow: `NRI_TEST_SLOW` is set there.
pub(crate) fn timeout() -> Duration {
    if slow() { TIMEOUT * 5 } else { TIMEOUT }
}

/// Whether this is such a guest.
pub(crate) fn slow() -> bool {
    std::env::var_os("NRI_TEST_SLOW").is_some()
}

/// Waits until `condition` yields something.
///
/// # Panics
/// It does not within [`TIMEOUT`]; `what` says what was waited for.
pub fn wait_until<T>(what: impl std::fmt::Display, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {:?} in vain for: {what}", timeout());
        thread::sleep(Duration::from_millis(5));
    }
}
