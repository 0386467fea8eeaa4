//! What a YAML scalar without quotes means: YAML 1.2's core schema, and numbers with a leading zero
//! octal, as in YAML 1.1.
//!
//! The octal numbers are for file modes: every other reader of CDI specifications takes `fileMode:
//! 0660` for that. Words such as `yes` and `on` are text.

use serde_json::{Number, Value};

/// The value of a plain scalar.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ => number(text).map_or_else(|| text.into(), Value::Number),
    }
}

/// A number, if that is what the text is.
pub(super) fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    integer(negative, digits).or_else(|| float(negative, digits))
}

fn integer(negative: bool, digits: &str) -> Option<Number> {
    let octal = |d: &&str| {
        d.len() > 1 && d.starts_with('0') && d.bytes().all(|b| (b'0'..b'8').contains(&b))
    };
    let (base, digits) = if let Some(digits) = digits.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = digits.strip_prefix("0o") {
        (8, digits)
    } else if octal(&digits) {
        (8, digits)
    } else {
        (10, digits)
    };
    // `from_str_radix` takes a sign, of which there was one already.
    if !digits.starts_with(|c: char| c.is_digit(base))
        || (base == 10 && digits.len() > 1 && digits.starts_with('0'))
    {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(magnitude.into())
    }
}

fn float(negative: bool, digits: &str) -> Option<Number> {
    // What Rust takes besides (`inf`, `nan`) does not begin with a digit or a dot.
    let magnitude: f64 = digits.parse().ok()?;
    Number::from_f64(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn meanings() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("nULL", json!("nULL")),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("17", json!(17)),
            ("+17", json!(17)),
            ("-17", json!(-17)),
            ("--17", json!("--17")),
            ("+-17", json!("+-17")),
            ("0660", json!(432)),
            ("0o660", json!(432)),
            ("0x1F", json!(31)),
            ("0x", json!("0x")),
            ("0x+1", json!("0x+1")),
            ("0o-1", json!("0o-1")),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1e3", json!(1000.0)),
            ("1e999", json!("1e999")),
            (".", json!(".")),
            (".inf", json!(".inf")),
            ("-", json!("-")),
            ("1_000", json!("1_000")),
            ("1.2.3", json!("1.2.3")),
            ("10M", json!("10M")),
            ("1é", json!("1é")),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
