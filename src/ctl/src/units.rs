//! Numbers, times and sizes as people read them.

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
