//! The wall clock in the unit of the protocol.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in nanoseconds since the epoch.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
