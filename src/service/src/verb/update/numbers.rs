//! Numbers in the arguments of `update`.

use crate::resources::versions::is_crun_or_youki;

/// How a runtime reads an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// Decimal: crun, youki.
    Decimal,
    /// The integer literals of Go, such as 0x11, 0b1, 0o17, 017 (octal) and 1_000: runc
    /// (`urfave/cli`: `IntFlag`, which is `strconv.ParseInt` with base 0).
    Go,
}

impl Notation {
    /// Returns the notation of the runtime with this base name.
    pub(super) fn of(runtime: &str) -> Self {
        if is_crun_or_youki(runtime) { Self::Decimal } else { Self::Go }
    }
}

/// Parses an integer.
pub(super) fn parse_integer(text: &str, notation: Notation) -> Option<i64> {
    match notation {
        Notation::Decimal => text.parse().ok(),
        Notation::Go => parse_go(text),
    }
}

/// Parses an integer literal of Go with an optional sign
/// (<https://go.dev/ref/spec#Integer_literals>).
fn parse_go(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)];
    let prefixed = prefixes.iter().find_map(|(p, radix)| Some((lower.strip_prefix(*p)?, *radix)));
    let (digits, radix) = match prefixed {
        // A single zero is decimal, and not an octal prefix without digits.
        Some(("", 8)) if lower == "0" => ("0", 10),
        Some(found) => found,
        None => (&*lower, 10),
    };
    // An underscore separates digits, or follows the prefix.
    let is_separated = !digits.ends_with('_')
        && !digits.contains("__")
        && (prefixed.is_some() || !digits.starts_with('_'));
    let digits = digits.replace('_', "");
    // from_str_radix would accept a second sign.
    let is_number = is_separated && digits.starts_with(|c: char| c.is_ascii_hexdigit());
    is_number.then(|| i64::from_str_radix(&format!("{sign}{digits}"), radix).ok())?
}

/// Parses a size in bytes with an optional binary unit: 512m, 1G, 4KiB, -1.
pub(super) fn parse_size(text: &str) -> Option<i64> {
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit = unit.to_ascii_lowercase();
    let power = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let scale = 1024i64.pow(power);
    match number.trim().parse::<i64>() {
        Ok(n) => n.checked_mul(scale),
        Err(_) => number
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite())
            .map(|n| (n * scale as f64) as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("1", 1),
            ("1k", 1024),
            ("1KiB", 1024),
            ("2Gb", 2 << 30),
            ("1.5m", (1 << 20) + (1 << 19)),
            ("-1", -1),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "m", "1x", "9999999999999t"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn integers_have_the_notations_of_go() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("17", 17),
            ("+17", 17),
            ("-1", -1),
            ("017", 15),
            ("-017", -15),
            ("0o17", 15),
            ("0O17", 15),
            ("0x1F", 31),
            ("0b101", 5),
            ("1_000", 1000),
            ("0x_ff", 255),
            ("0_17", 15),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_integer(text, Notation::Go), Some(value), "{text}");
        }
        for text in ["", "-", "+-1", "018", "0x", "0o", "1__0", "_1", "1_", "0x-1", "1e3", "17m"] {
            assert_eq!(parse_integer(text, Notation::Go), None, "{text}");
        }
    }

    #[test]
    fn the_name_of_the_runtime_selects_the_notation() {
        for (name, notation) in [
            ("runc", Notation::Go),
            ("crun", Notation::Decimal),
            ("crun-1.28", Notation::Decimal),
            ("youki", Notation::Decimal),
            ("other", Notation::Go),
        ] {
            assert_eq!(Notation::of(name), notation, "{name}");
        }
    }
}
