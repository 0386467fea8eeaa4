//! Applies to the process file of an `exec` the changes that plugins made to the container's
//! process.
//!
//! This module does no I/O. An engine derives the process file from its OCI config of the
//! container. A value that is equal in both is replaced by the plugins' value. A value that differs
//! was given to this `exec`, and is kept.

use nri_files::{ExecChanges, ExecRlimit, ExecVariable};
use serde_json::{Map, Value};

/// Name of a member of the process file that does not have the type of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Applies `changes` to a process file. Returns whether anything has changed.
///
/// # Errors
/// [`Malformed`] if a member has the wrong type; nothing has changed then.
pub(crate) fn apply(process: &mut Value, changes: &ExecChanges) -> Result<bool, Malformed> {
    let members = process.as_object_mut().ok_or(Malformed("process"))?;
    let lists =
        [list(members, "env", Value::is_string)?, list(members, "rlimits", Value::is_object)?];
    let [mut env, mut rlimits] = lists.clone();
    changes.env.iter().for_each(|variable| apply_variable(&mut env, variable));
    changes.rlimits.iter().for_each(|rlimit| apply_rlimit(&mut rlimits, rlimit));
    let mut changed = false;
    for ((name, before), after) in ["env", "rlimits"].into_iter().zip(lists).zip([env, rlimits]) {
        if after != before {
            members.insert(name.to_owned(), after.into());
            changed = true;
        }
    }
    Ok(changed)
}

/// Returns the entries of a list, which is empty if the member is missing or null. Each entry must
/// have the type that `fits` checks.
fn list(
    members: &Map<String, Value>,
    name: &'static str,
    fits: fn(&Value) -> bool,
) -> Result<Vec<Value>, Malformed> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) if entries.iter().all(fits) => Ok(entries.clone()),
        Some(_) => Err(Malformed(name)),
    }
}

fn apply_variable(env: &mut Vec<Value>, variable: &ExecVariable) {
    let value_of = |entry: &Value| -> Option<String> {
        let (name, value) = entry.as_str()?.split_once('=')?;
        (name == variable.name).then(|| value.to_owned())
    };
    // The last of several entries is effective, as in the container.
    if env.iter().rev().find_map(value_of) != variable.engine {
        return;
    }
    let first = env.iter().position(|entry| value_of(entry).is_some()).unwrap_or(env.len());
    env.retain(|entry| value_of(entry).is_none());
    if let Some(value) = &variable.value {
        env.insert(first.min(env.len()), format!("{}={value}", variable.name).into());
    }
}

fn apply_rlimit(rlimits: &mut Vec<Value>, rlimit: &ExecRlimit) {
    let kind = &rlimit.value["type"];
    match rlimits.iter_mut().find(|r| r["type"] == *kind) {
        Some(entry) if rlimit.engine.as_ref() == Some(entry) => *entry = rlimit.value.clone(),
        None if rlimit.engine.is_none() => rlimits.push(rlimit.value.clone()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, engine: Option<&str>, value: Option<&str>) -> ExecVariable {
        ExecVariable {
            name: name.into(),
            engine: engine.map(Into::into),
            value: value.map(Into::into),
        }
    }

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// Compares the file as text, because the order of members and the notation of numbers count.
    fn check(changes: &ExecChanges, before: &str, after: &str) {
        let mut process = parse(before);
        let changed = apply(&mut process, changes).unwrap();
        assert_eq!(changed, before != after, "{before}");
        if changed {
            assert_eq!(process.to_string(), after, "{before}");
        }
    }

    #[test]
    fn a_variable_is_replaced_where_the_exec_has_the_engines_value() {
        let changes = ExecChanges {
            env: vec![
                variable("B", Some("2"), Some("two")),
                variable("N", None, Some("new=1")),
                variable("G", Some("7"), None),
            ],
            rlimits: Vec::new(),
        };
        for (before, after) in [
            // The process file has the values of the engine's OCI config.
            (r#"["A=1","B=2","G=7","Z"]"#, r#"["A=1","B=two","Z","N=new=1"]"#),
            // The process file has values of this exec.
            (r#"["B=other","N=mine","G=mine"]"#, r#"["B=other","N=mine","G=mine"]"#),
            // The process file has no value: removed for this exec, or never set.
            (r#"["A=1"]"#, r#"["A=1","N=new=1"]"#),
            (r#"[]"#, r#"["N=new=1"]"#),
            // Several entries of a name: the last is effective, and only one stays.
            (r#"["B=0","A=1","B=2","N="]"#, r#"["B=two","A=1","N="]"#),
            (r#"["B=2","B=0","N=x"]"#, r#"["B=2","B=0","N=x"]"#),
            // Names with the same prefix, and entries without a value.
            (r#"["BB=2","B","N","G"]"#, r#"["BB=2","B","N","G","N=new=1"]"#),
        ] {
            let process = |env: &str| format!(r#"{{"cwd":"/","env":{env},"args":["x"]}}"#);
            check(&changes, &process(before), &process(after));
        }
        check(&changes, r#"{"args":[]}"#, r#"{"args":[],"env":["N=new=1"]}"#);
        check(&changes, r#"{"env":null,"x":1.50}"#, r#"{"env":["N=new=1"],"x":1.50}"#);
    }

    #[test]
    fn an_rlimit_is_replaced_where_the_exec_has_the_engines_value() {
        let limit =
            |kind: &str, n: u64| format!(r#"{{"type":"RLIMIT_{kind}","hard":{n},"soft":{n}}}"#);
        let changes = ExecChanges {
            env: Vec::new(),
            rlimits: vec![
                ExecRlimit {
                    engine: Some(parse(&limit("NOFILE", 1))),
                    value: parse(&limit("NOFILE", 9)),
                },
                ExecRlimit { engine: None, value: parse(&limit("CORE", u64::MAX)) },
            ],
        };
        let process = |limits: &[(&str, u64)]| {
            let limits: Vec<_> = limits.iter().map(|(kind, n)| limit(kind, *n)).collect();
            format!(r#"{{"rlimits":[{}],"args":[]}}"#, limits.join(","))
        };
        for (before, after) in [
            (
                &[("NOFILE", 1), ("NPROC", 5)][..],
                &[("NOFILE", 9), ("NPROC", 5), ("CORE", u64::MAX)][..],
            ),
            (&[("NOFILE", 2), ("CORE", 0)], &[("NOFILE", 2), ("CORE", 0)]),
            (&[], &[("CORE", u64::MAX)]),
        ] {
            check(&changes, &process(before), &process(after));
        }
    }

    #[test]
    fn a_malformed_process_file_is_an_error() {
        let changes =
            ExecChanges { env: vec![variable("A", None, Some("1"))], rlimits: Vec::new() };
        for (text, member) in [
            ("[]", "process"),
            ("null", "process"),
            (r#"{"env":{}}"#, "env"),
            (r#"{"env":["A",1]}"#, "env"),
            (r#"{"rlimits":7}"#, "rlimits"),
            (r#"{"rlimits":[7]}"#, "rlimits"),
        ] {
            assert_eq!(apply(&mut parse(text), &changes), Err(Malformed(member)), "{text}");
        }
        check(&ExecChanges::default(), r#"{"env":null}"#, r#"{"env":null}"#);
    }
}
