//! How `status` and `doctor` describe the end of an `nrid` that was not a clean stop.

use nri_files::UncleanEnd;
use std::time::{Duration, UNIX_EPOCH};

/// What to look at.
pub(crate) const ADVICE: &str = "If systemd started it, `journalctl -u nri-container-runtime` has \
    the signal; `nrictl logs` has its last lines.";

/// Describes the end: the process, the times between which it was, and the cause if it is known.
pub(crate) fn describe(end: &UncleanEnd) -> String {
    let UncleanEnd { pid, last_sign, next_start, cause } = end;
    let at = |seconds: u64| {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
        humantime::format_rfc3339_seconds(time).to_string()
    };
    let when = match next_start {
        0 => format!("after {}, its last sign of life", at(*last_sign)),
        next => format!("between {} and {}", at(*last_sign), at(*next)),
    };
    let cause = cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
    format!("nrid (process {pid}) ended without a clean stop {when}{cause}")
}
