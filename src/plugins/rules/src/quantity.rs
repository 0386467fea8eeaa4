//! Amounts as people write them: bytes with a unit, microseconds with a unit, numbers of CPUs.

/// Error of an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    /// The text is no amount.
    #[error("{0:?} is no amount: expected {1}")]
    Invalid(String, &'static str),
    /// The amount is larger than 2^63 - 1.
    #[error("{0:?} is too large")]
    TooLarge(String),
}

/// What an amount is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// A number without a unit.
    Plain,
    /// Bytes: `1048576`, `512Mi`, `2G`.
    Bytes,
    /// Microseconds: `50000`, `50ms`.
    Microseconds,
    /// CPUs, in millionths: `2`, `1.5`, `500m`.
    Cpus,
}

const BYTES: &[(&str, f64)] = &[
    ("", 1.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
];
const MICROSECONDS: &[(&str, f64)] = &[("", 1.0), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];
const CPUS: &[(&str, f64)] = &[("", 1e6), ("m", 1e3)];

impl Unit {
    const fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Plain => &[("", 1.0)],
            Self::Bytes => BYTES,
            Self::Microseconds => MICROSECONDS,
            Self::Cpus => CPUS,
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Plain => "a whole number",
            Self::Bytes => "bytes, such as 512Mi or 2G",
            Self::Microseconds => "microseconds, or a time such as 50ms",
            Self::Cpus => "a number of CPUs, such as 1.5 or 500m",
        }
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
            && self.units()[0].1 == 1.0
        {
            return Ok(whole);
        }
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let invalid = || QuantityError::Invalid(text.to_owned(), self.expected());
        let factor = self.units().iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?.1;
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let amount = (number * factor).round();
        // 2^63, the first number that is too large.
        if amount.abs() >= 9_223_372_036_854_775_808.0 {
            return Err(QuantityError::TooLarge(text.to_owned()));
        }
        if self == Self::Plain && number.fract() != 0.0 {
            return Err(invalid());
        }
        Ok(amount as i64)
    }
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
            (Unit::Bytes, "unlimited", -1),
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
            (Unit::Bytes, "1 MB"),
            (Unit::Bytes, "1e3"),
            (Unit::Plain, "1k"),
            (Unit::Plain, "1.5"),
            (Unit::Cpus, "1Gi"),
            (Unit::Cpus, "--1"),
            (Unit::Microseconds, "1m"),
        ] {
            assert!(matches!(unit.parse(text), Err(QuantityError::Invalid(..))), "{text}");
        }
        let large = Unit::Bytes.parse("9000000Ti");
        assert_eq!(large, Err(QuantityError::TooLarge("9000000Ti".to_owned())));
    }
}
