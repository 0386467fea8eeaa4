//! Equality of JSON where numbers count by value: `1`, `1.0` and `10e-1` are the same.
//!
//! Exact for numbers of any size; no floating point is involved.

use serde_json::Value;
use std::hash::{Hash, Hasher};

/// Whether two values mean the same: numbers by value, objects without regard to order.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || same_number(a.as_str(), b.as_str()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// A value whose equality and hash are those of [`same`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByValue<'a>(pub(crate) &'a Value);

impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        same(self.0, other.0)
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

/// `digits * 10^exponent`, digits without zeros at either end, no digits for zero.
#[derive(PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads the text of a JSON number; `None` when its exponent is beyond 64 bits.
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (m, e.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let short = digits.trim_end_matches('0');
        if short.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let exponent = exponent.checked_add(i64::try_from(digits.len() - short.len()).ok()?)?;
        Some(Self { negative, digits: short.to_owned(), exponent })
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
            assert_eq!(same(&x, &y), expected, "{a} {b}");
            assert_eq!(HashSet::from([ByValue(&x)]).contains(&ByValue(&y)), expected, "{a} {b}");
        }
    }
}
