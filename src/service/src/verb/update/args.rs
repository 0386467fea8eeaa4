//! Parser for the arguments of `update`. Flags that set a resource become `linux.resources`; other
//! arguments are passed on to the runtime.
//!
//! The flags are those of runc and crun (`runc update --help`); youki has some of them. Only crun
//! accepts abbreviations. runc parses flags as Go programs do: it refuses an update with an
//! abbreviation, and changes nothing.

use crate::{
    error::UpdateArgumentError,
    verb::update::numbers::{self, Notation},
};
use nri_files::OsText;
use serde_json::{Map, Value, json};

/// The parsed arguments of an `update`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UpdateArguments {
    /// `linux.resources`, from the flags.
    pub(super) flags: Value,
    /// Arguments that set no resource, unchanged.
    pub(super) others: Vec<OsText>,
}

/// Syntax of a flag's value.
enum Syntax {
    /// An integer, which every runtime reads as decimal.
    Decimal,
    /// An integer, which runc reads in any notation of Go: an `IntFlag` of its command line.
    Integer,
    /// Bytes, with an optional unit.
    Size,
    /// Text.
    Text,
}

/// A flag: name, group and field of `linux.resources`, syntax of the value.
type UpdateFlag = (&'static str, &'static str, &'static str, Syntax);

/// Flags of runc and crun.
const FLAGS: [UpdateFlag; 17] = [
    ("blkio-weight", "blockIO", "weight", Syntax::Integer),
    ("cpu-period", "cpu", "period", Syntax::Decimal),
    ("cpu-quota", "cpu", "quota", Syntax::Decimal),
    ("cpu-burst", "cpu", "burst", Syntax::Decimal),
    ("cpu-idle", "cpu", "idle", Syntax::Decimal),
    ("cpu-share", "cpu", "shares", Syntax::Decimal),
    ("cpu-shares", "cpu", "shares", Syntax::Decimal),
    ("cpu-rt-period", "cpu", "realtimePeriod", Syntax::Decimal),
    ("cpu-rt-runtime", "cpu", "realtimeRuntime", Syntax::Decimal),
    ("cpuset-cpus", "cpu", "cpus", Syntax::Text),
    ("cpuset-mems", "cpu", "mems", Syntax::Text),
    ("kernel-memory", "memory", "kernel", Syntax::Size),
    ("kernel-memory-tcp", "memory", "kernelTCP", Syntax::Size),
    ("memory", "memory", "limit", Syntax::Size),
    ("memory-reservation", "memory", "reservation", Syntax::Size),
    ("memory-swap", "memory", "swap", Syntax::Size),
    ("pids-limit", "pids", "limit", Syntax::Integer),
];

/// The flag that names a file with resources. The request of the wrapper has the file's content.
const RESOURCES: &str = "resources";

/// An option as it was typed.
struct Typed<'a> {
    name: &'a str,
    /// The value, if it is in the same argument.
    inline: Option<&'a str>,
    /// Whether the name may be an abbreviation, because two dashes precede it.
    may_be_short: bool,
}

impl<'a> Typed<'a> {
    /// Splits an argument; `None` if it is not an option.
    fn of(argument: &'a str) -> Option<Self> {
        let (option, may_be_short) = match argument.strip_prefix("--") {
            Some(option) => (option, true),
            None => (argument.strip_prefix('-')?, false),
        };
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let typed = Self { name, inline, may_be_short };
        // The path of the file may follow `-r` directly.
        match name.strip_prefix('r') {
            Some(file) if !may_be_short && !file.is_empty() && !typed.is_resources() => {
                Some(Self { name: "r", inline: Some(&option[1..]), may_be_short })
            }
            _ => Some(typed).filter(|typed| !typed.name.is_empty()),
        }
    }

    fn is_resources(&self) -> bool {
        let is_abbreviation = self.may_be_short && RESOURCES.starts_with(self.name);
        self.name == "r" || self.name == RESOURCES || is_abbreviation
    }

    /// Returns the flag of this name, or the flag that the name abbreviates without ambiguity.
    fn flag(&self) -> Option<&'static UpdateFlag> {
        if let Some(flag) = FLAGS.iter().find(|flag| flag.0 == self.name) {
            return Some(flag);
        }
        let mut fitting =
            FLAGS.iter().filter(|flag| self.may_be_short && flag.0.starts_with(self.name));
        let first = fitting.next()?;
        // Two flags of the same field, such as `cpu-share` and `cpu-shares`, are not ambiguous.
        fitting.all(|flag| (flag.1, flag.2) == (first.1, first.2)).then_some(first)
    }
}

/// Parses the arguments after the verb. `notation` is the one in which the runtime reads integers.
///
/// # Errors
/// A flag has no value, or one that is not a number.
pub(super) fn parse(
    arguments: &[OsText],
    id: &str,
    notation: Notation,
) -> Result<UpdateArguments, UpdateArgumentError> {
    let mut flags = Map::new();
    let mut parsed = UpdateArguments { flags: Value::Null, others: Vec::new() };
    let mut rest = arguments.iter();
    let mut id_seen = false;
    while let Some(argument) = rest.next() {
        let text = argument.0.to_string_lossy();
        let Some(typed) = Typed::of(&text) else {
            // The id is not in `others`: the caller appends it to the arguments.
            if id_seen || text != id {
                parsed.others.push(argument.clone());
            }
            id_seen |= text == id;
            continue;
        };
        let mut value = |name: &str| {
            let next = || rest.next().map(|v| v.0.to_string_lossy().into_owned());
            let value = typed.inline.map(str::to_owned).or_else(next);
            value.ok_or_else(|| UpdateArgumentError::Missing(format!("--{name}")))
        };
        if typed.is_resources() {
            value(RESOURCES)?;
        } else if let Some((name, group, field, syntax)) = typed.flag() {
            let value = value(name)?;
            let number = |n: Option<i64>| {
                n.map(Value::from).ok_or_else(|| UpdateArgumentError::Number {
                    flag: format!("--{name}"),
                    value: value.clone(),
                })
            };
            let value = match syntax {
                Syntax::Decimal => number(value.trim().parse().ok())?,
                Syntax::Integer => number(numbers::parse_integer(value.trim(), notation))?,
                Syntax::Size => number(numbers::parse_size(value.trim()))?,
                Syntax::Text => Value::from(value.clone()),
            };
            let group = flags.entry(*group).or_insert_with(|| json!({}));
            if let Value::Object(group) = group {
                group.insert((*field).to_owned(), value);
            }
        } else {
            parsed.others.push(argument.clone());
            let takes_value = matches!(typed.name, "l3-cache-schema" | "mem-bw-schema");
            if typed.inline.is_none() && takes_value {
                parsed.others.extend(rest.next().cloned());
            }
        }
    }
    parsed.flags = Value::Object(flags);
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], flags: Value, others: &[&str]) {
        let texts: Vec<OsText> = arguments.iter().map(|a| OsText::from(*a)).collect();
        let parsed = parse(&texts, "c1", Notation::Go).unwrap();
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
        // The first `c1` is the flag's value, and not the id.
        check(&["--cpuset-cpus", "c1", "c1"], json!({"cpu": {"cpus": "c1"}}), &[]);
        check(
            &["--pids-limit=7", "--l3-cache-schema", "L3:0=f", "c1"],
            json!({"pids": {"limit": 7}}),
            &["--l3-cache-schema", "L3:0=f"],
        );
    }

    /// argp of glibc, which crun uses, takes every abbreviation that is not ambiguous.
    #[test]
    fn abbreviations_of_crun_are_flags() {
        check(
            &["--cpu-shar", "3", "--pids=33", "--memory-r", "1m", "c1"],
            json!({
                "cpu": {"shares": 3}, "pids": {"limit": 33}, "memory": {"reservation": 1 << 20}
            }),
            &[],
        );
        check(&["--res", "-", "c1"], json!({}), &[]);
        check(&["--res=-", "c1"], json!({}), &[]);
        check(&["-r-", "c1"], json!({}), &[]);
        check(&["-r=-", "c1"], json!({}), &[]);
        // Ambiguous abbreviations, and abbreviations after one dash, are no flags of any runtime.
        check(
            &["--mem=1", "--cpu=2", "-pids=3", "c1"],
            json!({}),
            &["--mem=1", "--cpu=2", "-pids=3"],
        );
    }

    #[test]
    fn numbers_are_read_as_the_runtime_reads_them() {
        let limit = |text: &str, notation| {
            let arguments = [OsText::from("--pids-limit"), OsText::from(text), OsText::from("c1")];
            parse(&arguments, "c1", notation).map(|parsed| parsed.flags["pids"]["limit"].clone())
        };
        assert_eq!(limit("017", Notation::Go), Ok(json!(15)));
        assert_eq!(limit("0x11", Notation::Go), Ok(json!(17)));
        assert_eq!(limit("017", Notation::Decimal), Ok(json!(17)));
        assert!(limit("0x11", Notation::Decimal).is_err());
        // runc reads the other flags as decimal.
        let shares = ["--cpu-share=017", "c1"].map(OsText::from);
        let parsed = parse(&shares, "c1", Notation::Go).unwrap();
        assert_eq!(parsed.flags, json!({"cpu": {"shares": 17}}));
    }

    #[test]
    fn an_argument_error_names_the_flag() {
        let error = parse(&["--pids-limit".into(), "many".into()], "c1", Notation::Go).unwrap_err();
        assert_eq!(error.to_string(), "update: --pids-limit: \"many\" is not a number");
        assert_eq!(
            parse(&["--memory".into()], "c1", Notation::Go).unwrap_err().to_string(),
            "update: --memory needs a value"
        );
    }
}
