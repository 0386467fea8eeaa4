//! Parser for the arguments of `update`. Flags that set a resource become `linux.resources`; other
//! arguments are passed on to the runtime.
//!
//! Flags are runc's and crun's (`runc update --help`); youki knows a part of them.

use nri_control::OsText;
use serde_json::{Map, Value, json};

/// The parsed arguments of an `update`.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateArguments {
    /// `linux.resources`, from the flags.
    pub flags: Value,
    /// Arguments that set no resource, unchanged.
    pub others: Vec<OsText>,
}

/// An argument that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateArgumentError {
    /// The value of a flag is not a number.
    #[error("update: {flag}: {value:?} is not a number")]
    Number {
        /// The flag.
        flag: String,
        /// Its value.
        value: String,
    },
    /// A flag has no value.
    #[error("update: {0} needs a value")]
    Missing(String),
}

/// Syntax of a flag's value.
enum Form {
    /// An integer.
    Number,
    /// Bytes, with an optional unit.
    Size,
    /// Text.
    Text,
}

/// Flags of runc and crun: name, group and field of `linux.resources`, syntax of the value.
const FLAGS: [(&str, &str, &str, Form); 17] = [
    ("blkio-weight", "blockIO", "weight", Form::Number),
    ("cpu-period", "cpu", "period", Form::Number),
    ("cpu-quota", "cpu", "quota", Form::Number),
    ("cpu-burst", "cpu", "burst", Form::Number),
    ("cpu-idle", "cpu", "idle", Form::Number),
    ("cpu-share", "cpu", "shares", Form::Number),
    ("cpu-shares", "cpu", "shares", Form::Number),
    ("cpu-rt-period", "cpu", "realtimePeriod", Form::Number),
    ("cpu-rt-runtime", "cpu", "realtimeRuntime", Form::Number),
    ("cpuset-cpus", "cpu", "cpus", Form::Text),
    ("cpuset-mems", "cpu", "mems", Form::Text),
    ("kernel-memory", "memory", "kernel", Form::Size),
    ("kernel-memory-tcp", "memory", "kernelTCP", Form::Size),
    ("memory", "memory", "limit", Form::Size),
    ("memory-reservation", "memory", "reservation", Form::Size),
    ("memory-swap", "memory", "swap", Form::Size),
    ("pids-limit", "pids", "limit", Form::Number),
];

/// Parses the arguments after the verb.
///
/// # Errors
/// A flag has no value, or one that is not a number.
pub fn parse(arguments: &[OsText], id: &str) -> Result<UpdateArguments, UpdateArgumentError> {
    let mut flags = Map::new();
    let mut parsed = UpdateArguments { flags: Value::Null, others: Vec::new() };
    let mut rest = arguments.iter();
    let mut id_seen = false;
    while let Some(argument) = rest.next() {
        let text = argument.0.to_string_lossy();
        let Some(option) =
            text.strip_prefix("--").or_else(|| text.strip_prefix('-')).filter(|o| !o.is_empty())
        else {
            // The id is left out here, and appended by the caller.
            if id_seen || text != id {
                parsed.others.push(argument.clone());
            }
            id_seen |= text == id;
            continue;
        };
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        let mut value = || {
            inline
                .clone()
                .or_else(|| rest.next().map(|v| v.0.to_string_lossy().into_owned()))
                .ok_or_else(|| UpdateArgumentError::Missing(format!("--{name}")))
        };
        if matches!(name, "resources" | "r") {
            // The wrapper has sent the content of this file in the request.
            value()?;
        } else if let Some((_, group, field, form)) = FLAGS.iter().find(|f| f.0 == name) {
            let value = value()?;
            let number = |n: Option<i64>| {
                n.map(Value::from).ok_or_else(|| UpdateArgumentError::Number {
                    flag: format!("--{name}"),
                    value: value.clone(),
                })
            };
            let value = match form {
                Form::Number => number(value.trim().parse().ok())?,
                Form::Size => number(parse_size(value.trim()))?,
                Form::Text => Value::from(value.clone()),
            };
            let group = flags.entry(*group).or_insert_with(|| json!({}));
            if let Value::Object(group) = group {
                group.insert((*field).to_owned(), value);
            }
        } else {
            parsed.others.push(argument.clone());
            if inline.is_none() && matches!(name, "l3-cache-schema" | "mem-bw-schema") {
                parsed.others.extend(rest.next().cloned());
            }
        }
    }
    parsed.flags = Value::Object(flags);
    Ok(parsed)
}

/// Parses a size in bytes with an optional binary unit: 512m, 1G, 4KiB, -1.
fn parse_size(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
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

    fn check(arguments: &[&str], flags: Value, others: &[&str]) {
        let texts: Vec<OsText> = arguments.iter().map(|a| OsText::from(*a)).collect();
        let parsed = parse(&texts, "c1").unwrap();
        let others: Vec<OsText> = others.iter().map(|a| OsText::from(*a)).collect();
        assert_eq!((parsed.flags, parsed.others), (flags, others), "{arguments:?}");
    }

    #[test]
    fn flags_become_resources_and_other_options_are_kept() {
        check(&["--resources", "-", "c1"], json!({}), &[]);
        check(&["--resources=-", "c1"], json!({}), &[]);
        check(&["-r", "f", "c1"], json!({}), &[]);
        check(
            &["--memory", "512m", "--memory-swap=-1", "c1"],
            json!({"memory": {"limit": 512 << 20, "swap": -1}}),
            &[],
        );
        check(&["--cpuset-cpus", "c1", "c1"], json!({"cpu": {"cpus": "c1"}}), &[]);
        check(
            &["--pids-limit=7", "--l3-cache-schema", "L3:0=f", "c1"],
            json!({"pids": {"limit": 7}}),
            &["--l3-cache-schema", "L3:0=f"],
        );
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [
            ("1", 1),
            ("1k", 1024),
            ("1KiB", 1024),
            ("2Gb", 2 << 30),
            ("1.5m", 3 << 19),
            ("-1", -1),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "m", "1x", "9999999999999t"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_flag() {
        let error = parse(&["--pids-limit".into(), "many".into()], "c1").unwrap_err();
        assert_eq!(error.to_string(), "update: --pids-limit: \"many\" is not a number");
        assert_eq!(
            parse(&["--memory".into()], "c1").unwrap_err().to_string(),
            "update: --memory needs a value"
        );
    }
}
