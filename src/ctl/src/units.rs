//! Numbers, times and sizes as people read them.

use serde_json::Value;
use std::fmt::Display;

/// Units of memory, each 1024 times the one before.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Formats a number of things, whose name is in the singular.
pub(crate) fn counted<T: Display + PartialEq + From<u8>>(number: T, name: &str) -> String {
    let plural = if number == T::from(1) { "" } else { "s" };
    format!("{number} {name}{plural}")
}

/// Formats a time in microseconds.
pub(crate) fn time(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{} ms", rounded(micros as f64 / 1e3)),
        _ => format!("{} s", rounded(micros as f64 / 1e6)),
    }
}

/// Formats a size in bytes.
pub(crate) fn memory(bytes: u64) -> String {
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    format!("{} {}", rounded(size), UNITS[unit])
}

/// Largest number of a unit that is shown in place of a rounded number of the next one.
const MAX_EXACT: u64 = 100 << 10;

/// Size above which a limit is none: cgroup v1 and runtimes round the largest number down to pages.
const NO_LIMIT: u64 = i64::MAX as u64 - (1 << 16);

/// Formats a size in bytes so that different sizes have different texts: with the number of bytes
/// if it is rounded.
pub(crate) fn size(bytes: u64) -> String {
    if bytes > NO_LIMIT {
        return "unlimited".to_owned();
    }
    let (mut number, mut unit) = (bytes, 0);
    while number >= 1024 && number % 1024 == 0 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1024, unit + 1);
    }
    match number {
        0..MAX_EXACT => format!("{number} {}", UNITS[unit]),
        _ => format!("{} ({bytes})", memory(bytes)),
    }
}

/// Names of the resources that are sizes in bytes. An entry of `hugepageLimits` is one, too.
const SIZES: [&str; 13] = [
    "memory.limit",
    "memory.reservation",
    "memory.swap",
    "memory.kernel",
    "memory.kernelTCP",
    "unified[memory.min]",
    "unified[memory.low]",
    "unified[memory.high]",
    "unified[memory.max]",
    "unified[memory.swap.high]",
    "unified[memory.swap.max]",
    "unified[memory.zswap.max]",
    "hugepageLimits",
];

/// Formats the value of a field if it is a size in bytes.
pub(crate) fn size_of_field(field: &str, value: &Value) -> Option<String> {
    let is_size = SIZES.contains(&field) || field.starts_with("hugepageLimits[");
    match value {
        _ if !is_size => None,
        Value::Object(limit) => size_of_field(field, limit.get("limit")?),
        Value::String(text) => text.parse().ok().map(size),
        Value::Number(number) if number.as_i64() == Some(-1) => Some("unlimited".to_owned()),
        value => value.as_u64().map(size),
    }
}

/// Formats a number with one decimal if it has one digit before it.
fn rounded(number: f64) -> String {
    if number < 9.95 && number.fract() > 0.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_sizes_have_different_texts() {
        for (bytes, text) in [
            (0, "0 B"),
            (4096, "4 KiB"),
            (67_108_864, "64 MiB"),
            (1_610_612_736, "1536 MiB"),
            (70_000, "70000 B"),
            (100_000_000, "95 MiB (100000000)"),
            (100_000_001, "95 MiB (100000001)"),
            (9_223_372_036_854_771_712, "unlimited"),
            (u64::MAX, "unlimited"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn the_sizes_among_the_fields_are_known() {
        let mib = Value::from(1 << 20);
        let text = |field: &str, value: &Value| size_of_field(field, value).unwrap_or_default();
        assert_eq!(text("memory.limit", &mib), "1 MiB");
        assert_eq!(text("memory.swap", &Value::from(-1)), "unlimited");
        assert_eq!(text("unified[memory.high]", &Value::from("1048576")), "1 MiB");
        assert_eq!(text("unified[memory.high]", &Value::from("max")), "");
        let huge = serde_json::json!({"pageSize": "2MB", "limit": 4_194_304});
        assert_eq!(text("hugepageLimits[2MB]", &huge), "4 MiB");
        assert_eq!(text("pids.limit", &mib) + &text("memory.swappiness", &mib), "");
    }

    #[test]
    fn one_thing_is_not_a_plural() {
        let texts = [0_u8, 1, 2].map(|number| counted(number, "container"));
        assert_eq!(texts, ["0 containers", "1 container", "2 containers"]);
    }

    #[test]
    fn times_and_sizes_have_two_digits_or_more() {
        let times = [0, 51, 999, 1000, 1750, 9949, 9950, 250_000, 2_000_000, 9_960_000];
        let expected = [
            "0 µs", "51 µs", "999 µs", "1 ms", "1.8 ms", "9.9 ms", "10 ms", "250 ms", "2 s", "10 s",
        ];
        assert_eq!(times.map(time), expected);
        let sizes = [0, 1023, 1024, 4_404_019, 20 << 20, 3 << 30];
        assert_eq!(sizes.map(memory), ["0 B", "1023 B", "1 KiB", "4.2 MiB", "20 MiB", "3 GiB"]);
    }
}
