//! Waiting for things.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up. Generous: it is never waited for in vain but when something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` yields something.
///
/// # Panics
/// It does not within [`PATIENCE`]; `what` says what was waited for.
pub fn wait_until<T>(what: impl std::fmt::Display, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
