//! Sizes in bytes, such as `512MiB`, `512Mi`, `1.5 GiB` or `1048576`.
//!
//! The crates `parse-size` and `bytesize` accept units in lower case: they read `500m`, which is
//! half a byte in Kubernetes, as 500 megabytes. Here it is an error.

/// What the letters `K`, `M`, `G` and `T` mean without `i`. Files of rules and policies had them
/// before there was one parser, with the two meanings that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// Powers of 1000, as in Kubernetes and SI: `1M` is 1,000,000.
    Decimal,
    /// Powers of 1024, as in Docker's options and systemd's units: `1M` is 1,048,576.
    Binary,
}

/// Text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSize {
    /// The text has another form.
    #[error("{0:?} is not a size, such as \"512MiB\", \"1.5GiB\" or 1048576")]
    Form(String),
    /// The size has more than 64 bits.
    #[error("{0:?} is too large for a size")]
    TooLarge(String),
}

/// Units of 1024 and of 1000 by their letter, with the power.
const LETTERS: [(char, u32); 5] = [('k', 1), ('K', 1), ('M', 2), ('G', 3), ('T', 4)];

/// Parses a size: a number, and optionally a unit, with or without a space between them. Units are
/// `B`, `Ki`, `Mi`, `Gi`, `Ti`, the same with `B` (`MiB`), and `k`, `K`, `M`, `G`, `T`. A fraction
/// of a byte is rounded.
///
/// # Errors
/// The text has another form, or the size does not fit.
pub fn parse_size(text: &str, letters: Letters) -> Result<u64, InvalidSize> {
    let invalid = || InvalidSize::Form(text.to_owned());
    let too_large = || InvalidSize::TooLarge(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let factor = factor(unit.trim_start(), letters).ok_or_else(invalid)?;
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = !integer.is_empty() || !fraction.is_empty();
    // More digits than these are below a byte with every unit.
    if !has_digits || fraction.contains('.') || fraction.len() > 15 {
        return Err(invalid());
    }
    let digits: u128 = format!("{integer}{fraction}").parse().map_err(|_| too_large())?;
    let unit = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| invalid())?);
    let bytes = digits.checked_mul(factor).and_then(|bytes| bytes.checked_add(unit / 2));
    u64::try_from(bytes.ok_or_else(too_large)? / unit).map_err(|_| too_large())
}

/// Returns the number of bytes of a unit.
fn factor(unit: &str, letters: Letters) -> Option<u128> {
    let mut chars = unit.chars();
    let Some(first) = chars.next().filter(|first| *first != 'B') else {
        return chars.next().is_none().then_some(1);
    };
    let (_, power) = LETTERS.iter().find(|(letter, _)| *letter == first)?;
    let base: u128 = match (chars.as_str(), letters) {
        ("i" | "iB", _) if first != 'k' => 1024,
        ("", Letters::Decimal) => 1000,
        ("", Letters::Binary) => 1024,
        _ => return None,
    };
    Some(base.pow(*power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units_and_letters_of_two_meanings() {
        for (text, decimal, binary) in [
            ("0", 0, 0),
            (" 77 ", 77, 77),
            ("77B", 77, 77),
            ("512Mi", 512 << 20, 512 << 20),
            ("512MiB", 512 << 20, 512 << 20),
            ("1 KiB", 1024, 1024),
            ("1.5Gi", 3 << 29, 3 << 29),
            (".5 TiB", 1 << 39, 1 << 39),
            ("1k", 1000, 1024),
            ("1K", 1000, 1024),
            ("2G", 2_000_000_000, 2 << 30),
            ("1.5 M", 1_500_000, 3 << 19),
            ("1T", 1_000_000_000_000, 1 << 40),
            ("0.0004Ki", 0, 0),
            ("18446744073709551615", u64::MAX, u64::MAX),
        ] {
            assert_eq!(parse_size(text, Letters::Decimal), Ok(decimal), "{text}");
            assert_eq!(parse_size(text, Letters::Binary), Ok(binary), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in [
            "", "Mi", "500m", "1 MB", "1kB", "1kiB", "1mib", "1e3", "-1", "+1", "1..2", "1.2.3M",
            "1 0", "1M 1", "0x10", "1_000", "1Bi", "1 BB", ".", "1µ",
        ] {
            let expected = Err(InvalidSize::Form(text.to_owned()));
            assert_eq!(parse_size(text, Letters::Decimal), expected, "{text}");
        }
        for text in ["18446744073709551616", "16777216Ti", "9".repeat(60).as_str()] {
            let expected = Err(InvalidSize::TooLarge(text.to_owned()));
            assert_eq!(parse_size(text, Letters::Binary), expected, "{text}");
        }
    }
}
