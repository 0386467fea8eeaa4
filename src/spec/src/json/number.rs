//! Equality of JSON that compares numbers by value: `1`, `1.0` and `10e-1` are equal.
//!
//! The comparison is exact for numbers of any size, because it uses no floating point.

use serde_json::Value;
use std::hash::{Hash, Hasher};

/// Whether two values are equal. Numbers are compared by value, and the order of an object's keys
/// does not matter.
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || same_number(a.as_str(), b.as_str()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same_value(a, b)))
        }
        _ => a == b,
    }
}

/// A value with the equality of [`same_value`], and a hash that agrees with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByValue<'a>(pub(crate) &'a Value);

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        same_value(self.0, other.0)
    }
}

impl Eq for ByValue<'_> {}

impl Hash for ByValue<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(value) => value.hash(state),
            Value::String(text) => text.hash(state),
            Value::Number(number) => match Decimal::parse(number.as_str()) {
                Some(decimal) => decimal.hash(state),
                None => number.as_str().hash(state),
            },
            Value::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| ByValue(item).hash(state));
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> =
                    fields.iter().map(|(key, value)| (key, ByValue(value))).collect();
                fields.sort_unstable_by_key(|(key, _)| *key);
                fields.hash(state);
            }
        }
    }
}

fn same_number(a: &str, b: &str) -> bool {
    match (Decimal::parse(a), Decimal::parse(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// The number `digits * 10^exponent`. `digits` has no zeros at either end, and is empty for the
/// number zero.
#[derive(PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses the text of a JSON number; `None` if its exponent does not fit into 64 bits.
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (m, e.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let digits = format!("{integer}{fraction}");
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let exponent =
            exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
        Some(Self { negative, digits: significant.to_owned(), exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_equal_by_value() {
        for (a, b, expected) in [
            ("1", "1.0", true),
            ("1000", "1e3", true),
            ("-0", "0.00e5", true),
            ("18446744073709551615", "18446744073709551615.0", true),
            ("18446744073709551615", "18446744073709551614", false),
            ("1e999999999999", "10e999999999998", true),
            ("1e99999999999999999999", "1e99999999999999999999", true),
            ("1e99999999999999999999", "1", false),
            ("1", "-1", false),
            (r#"{"a":1,"b":[2.0]}"#, r#"{"b":[2],"a":1e0}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
            ("[1]", "[1,1]", false),
            (r#""1""#, "1", false),
        ] {
            let (x, y) = (serde_json::from_str(a).unwrap(), serde_json::from_str(b).unwrap());
            assert_eq!(same_value(&x, &y), expected, "{a} {b}");
            assert_eq!(HashSet::from([ByValue(&x)]).contains(&ByValue(&y)), expected, "{a} {b}");
        }
    }
}
