//! Ids, times and lists as people read them.

use nri_files::MissedPlugin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length to which ids are shortened, as in Docker and Podman.
const SHORT_ID: usize = 12;

/// Length of the ids that engines generate.
const GENERATED_ID: usize = 64;

/// Shortens an id that an engine generated. Others, such as those of `ctr`, are names.
pub(crate) fn short_id(id: &str, full: bool) -> &str {
    let is_generated = id.len() == GENERATED_ID && id.bytes().all(|b| b.is_ascii_hexdigit());
    if full || !is_generated { id } else { &id[..SHORT_ID] }
}

/// Formats a time in nanoseconds since the epoch; `None` if it is not known.
pub(super) fn timestamp(nanoseconds: i64) -> Option<String> {
    let since = u64::try_from(nanoseconds).ok().filter(|time| *time > 0)?;
    let time = UNIX_EPOCH.checked_add(Duration::from_nanos(since))?;
    Some(humantime::format_rfc3339_nanos(time).to_string())
}

/// Formats the time since a time in nanoseconds since the epoch, in one unit.
pub(super) fn age(nanoseconds: i64, now: SystemTime) -> String {
    let Some(since) = u64::try_from(nanoseconds).ok().filter(|time| *time > 0) else {
        return "-".to_owned();
    };
    let age = now.duration_since(UNIX_EPOCH + Duration::from_nanos(since)).unwrap_or_default();
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86400),
    }
}

/// Joins names; `-` if there are none.
pub(super) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let joined = names.into_iter().collect::<Vec<_>>().join(" ");
    or_dash(joined)
}

/// Joins the names of missed plugins; `-` if there are none.
pub(super) fn missed(missed: &[MissedPlugin]) -> String {
    names(missed.iter().map(|missed| &*missed.plugin))
}

/// Returns `-` for an empty text.
pub(super) fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Formats a process id; `-` if there is none.
pub(super) fn pid(pid: Option<i32>) -> String {
    pid.map_or("-".to_owned(), |pid| pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_engines_are_shortened() {
        let id = "15d1c2f4f6d9".to_owned() + &"a".repeat(52);
        assert_eq!(short_id(&id, false), "15d1c2f4f6d9");
        assert_eq!(short_id(&id, true), id);
        assert_eq!(short_id("a-name-that-somebody-chose", false), "a-name-that-somebody-chose");
        let name = "x".repeat(64);
        assert_eq!(short_id(&name, false), name);
    }

    #[test]
    fn times_are_rfc_3339_and_ages_have_one_unit() {
        let second = 1_000_000_000;
        assert_eq!(timestamp(second).as_deref(), Some("1970-01-01T00:00:01.000000000Z"));
        assert_eq!((timestamp(0), timestamp(-1)), (None, None));
        let now = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (seconds, text) in
            [(0, "0 s"), (60, "59 s"), (601, "10 min"), (7201, "2 h"), (3 * 86400 + 5, "3 d")]
        {
            assert_eq!(age(second, now(seconds)), text);
        }
        assert_eq!(age(0, now(5)), "-");
    }
}
