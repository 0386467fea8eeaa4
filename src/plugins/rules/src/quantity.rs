//! Amounts as people write them: bytes with a unit, microseconds with a unit, numbers of CPUs.

use nri_values::{InvalidSize, Letters, parse_duration, parse_size};
use std::time::Duration;

/// Error of an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    /// The text is no amount.
    #[error("{text:?} is no amount: expected {expected}")]
    Invalid {
        /// The text.
        text: String,
        /// What amounts of this kind are.
        expected: &'static str,
    },
    /// Docker's units: `m` is a thousandth elsewhere, and `M` is 1,000,000.
    #[error("{text:?} is no amount: write {meant}")]
    OtherUnit {
        /// The text.
        text: String,
        /// The amount in our units.
        meant: String,
    },
    /// The amount is larger than 2^63 - 1.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// What an amount is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// A number without a unit.
    Plain,
    /// Bytes: `1048576`, `512MiB`, `2G`.
    Bytes,
    /// Microseconds: `50000`, `50ms`, `1s`.
    Microseconds,
    /// CPUs, in millionths: `2`, `1.5`, `500m`.
    Cpus,
}

impl Unit {
    const fn expected(self) -> &'static str {
        match self {
            Self::Plain => "a whole number",
            Self::Bytes => "bytes, such as 512MiB or 2G",
            Self::Microseconds => "microseconds, or a time such as 50ms",
            Self::Cpus => "a number of CPUs, such as 1.5 or 500m",
        }
    }

    /// Returns bytes as Docker takes them, such as `512m` or `1 gb`, in the units of this module.
    fn binary(self, text: &str) -> Option<String> {
        let end = text.find(|c: char| c.is_ascii_alphabetic()).filter(|_| self == Self::Bytes)?;
        let (number, unit) = text.split_at(end);
        let letter = match unit.to_ascii_lowercase().as_str() {
            "k" | "kb" | "kib" => "Ki",
            "m" | "mb" | "mib" => "Mi",
            "g" | "gb" | "gib" => "Gi",
            "t" | "tb" | "tib" => "Ti",
            _ => return None,
        };
        let meant = format!("{}{letter}", number.trim_end());
        self.parse(&meant).is_ok().then_some(meant)
    }

    /// Reads an amount. `unlimited` is -1, as in the protocol.
    ///
    /// # Errors
    /// See [`QuantityError`].
    pub(crate) fn parse(self, text: &str) -> Result<i64, QuantityError> {
        let text = text.trim();
        if text == "unlimited" {
            return Ok(-1);
        }
        if let Ok(whole) = text.parse::<i64>()
            && self != Self::Cpus
        {
            return Ok(whole);
        }
        let invalid = || match self.binary(text) {
            Some(meant) => QuantityError::OtherUnit { text: text.to_owned(), meant },
            None => QuantityError::Invalid { text: text.to_owned(), expected: self.expected() },
        };
        let too_large = || QuantityError::TooLarge(text.to_owned());
        let (is_negative, positive) = match text.strip_prefix('-') {
            Some(positive) => (true, positive),
            None => (false, text),
        };
        let amount: i128 = match self {
            Self::Plain => decimal(positive)
                .filter(|number| number.fract() == 0.0)
                .map(|number| number as i128)
                .ok_or_else(invalid)?,
            Self::Bytes => match parse_size(positive, Letters::Decimal) {
                Ok(bytes) => bytes.into(),
                Err(InvalidSize::Form(_)) => return Err(invalid()),
                Err(InvalidSize::TooLarge(_)) => return Err(too_large()),
            },
            Self::Microseconds => match decimal(positive) {
                Some(bare) => bare.round() as i128,
                None => {
                    let time = parse_duration(positive).map_err(|_| invalid())?;
                    (time + Duration::from_nanos(500)).as_micros() as i128
                }
            },
            Self::Cpus => {
                let thousandths = positive.strip_suffix('m').map(|text| (text, 1e3));
                let (text, factor) = thousandths.unwrap_or((positive, 1e6));
                (decimal(text).ok_or_else(invalid)? * factor).round() as i128
            }
        };
        let amount = if is_negative { -amount } else { amount };
        i64::try_from(amount).map_err(|_| too_large())
    }
}

/// Reads a number with digits and a point only.
fn decimal(text: &str) -> Option<f64> {
    let is_decimal = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|_| is_decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_units_of_their_field() {
        for (unit, text, expected) in [
            (Unit::Bytes, "512Mi", 512 << 20),
            (Unit::Bytes, "1.5Gi", 3 << 29),
            (Unit::Bytes, "2G", 2_000_000_000),
            (Unit::Bytes, " 77 ", 77),
            (Unit::Bytes, "1 GiB", 1 << 30),
            (Unit::Bytes, "64MiB", 64 << 20),
            (Unit::Bytes, "-1k", -1000),
            (Unit::Bytes, "unlimited", -1),
            (Unit::Microseconds, "50.4", 50),
            (Unit::Microseconds, "1s500ms", 1_500_000),
            (Unit::Microseconds, "1m", 60_000_000),
            (Unit::Microseconds, "50ms", 50_000),
            (Unit::Microseconds, "0.5s", 500_000),
            (Unit::Cpus, "2", 2_000_000),
            (Unit::Cpus, "1.5", 1_500_000),
            (Unit::Cpus, "250m", 250_000),
            (Unit::Plain, "-1000", -1000),
        ] {
            assert_eq!(unit.parse(text), Ok(expected), "{text}");
        }
        for (unit, text) in [
            (Unit::Bytes, ""),
            (Unit::Bytes, "Mi"),
            (Unit::Bytes, "1e3"),
            (Unit::Plain, "1k"),
            (Unit::Plain, "1.5"),
            (Unit::Cpus, "1Gi"),
            (Unit::Cpus, "--1"),
            (Unit::Microseconds, "1M"),
            (Unit::Microseconds, "s"),
        ] {
            assert!(matches!(unit.parse(text), Err(QuantityError::Invalid { .. })), "{text}");
        }
        for (text, meant) in
            [("512m", "512Mi"), ("1g", "1Gi"), ("1.5 GB", "1.5Gi"), ("64kb", "64Ki")]
        {
            let error = Unit::Bytes.parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is no amount: write {meant}"));
        }
        let large = Unit::Bytes.parse("9000000Ti");
        assert_eq!(large, Err(QuantityError::TooLarge("9000000Ti".to_owned())));
    }
}
