//! Durations in Go's notation, such as "5s", "250ms" or "1m30s"; a bare number means seconds.
//!
//! containerd's NRI section, whose keys our configuration file shares, has the same notation. The
//! crate `humantime` cannot parse it: `humantime` refuses ".5s" and bare numbers, which are valid
//! here, and reads "5M" as five months instead of reporting a typing error.

use std::time::Duration;

/// Error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration, such as \"500ms\", \"5s\" or \"1m30s\"")]
pub struct InvalidDuration(pub String);

/// Units and their lengths in seconds, except `s`, which may be omitted. `ms` precedes its prefix
/// `m`.
const UNITS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("h", 3600.0), ("m", 60.0)];

/// Parses a duration in Go's notation, without sign.
///
/// # Errors
/// The text has another form, or exceeds the range of [`Duration`].
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.to_owned());
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_len);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let tail = tail.trim_start();
        let (scale, tail) =
            match UNITS.iter().find_map(|(unit, s)| tail.strip_prefix(unit).map(|t| (*s, t))) {
                Some(found) => found,
                None if tail.is_empty() && number_len == text.trim().len() => (1.0, tail),
                None => (1.0, tail.strip_prefix('s').ok_or_else(invalid)?),
            };
        let part = Duration::try_from_secs_f64(number * scale).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = tail.trim_start();
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, millis) in [
            ("5s", 5000),
            ("250ms", 250),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            ("2", 2000),
            ("0", 0),
            ("1h", 3_600_000),
            (" 1 h 30m ", 5_400_000),
            // 1.5 ms, truncated by `as_millis`.
            ("1500us", 1),
        ] {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        }
        for text in ["", "s", "1 2", "-1s", "5x", "5s3", "1..2s", "9e99s", "99999999999999999999h"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
