//! Checks of what a container has got.

use super::{Running, Stop};
use crate::{
    case::Check,
    observe::{END, Process, USUAL, resource, within},
};
use serde_json::Value;

impl Running<'_> {
    /// Checks a container, until everything is right or the deadline has passed: an update may be
    /// performed after the reply to the plugin, and `start` may return before the container's
    /// program is executed.
    pub(super) fn check(&mut self, check: &Check) -> Result<(), Stop> {
        let process = self.process(&check.container)?;
        if let Some(running) = check.running {
            within(END, || same("running", &running, &process.is_running()))?;
        }
        within(USUAL, || properties(process, check))?;
        if !check.config.is_empty() {
            let config = self.runner.oci_config(&self.id(&check.container)?)?;
            for (pointer, expected) in &check.config {
                value(pointer, expected, config.pointer(pointer))?;
            }
        }
        Ok(())
    }

    /// The process of a container. A container that has ended has none: its former one is returned.
    fn process(&mut self, name: &str) -> Result<Process, Stop> {
        if let Some(pid) = self.pids.get(name) {
            return Ok(Process(*pid));
        }
        let pid = self.runner.driver.pid(&self.id(name)?)?;
        self.pids.insert(name.to_owned(), pid);
        Ok(Process(pid))
    }
}

fn properties(process: Process, check: &Check) -> Result<(), String> {
    if let Some(args) = &check.args {
        same("args", args, &process.args())?;
    }
    for (name, expected) in &check.env {
        optional(&format!("variable {name}"), expected, process.env(name))?;
    }
    for (path, expected) in &check.mounts {
        optional(&format!("mount {path}"), expected, process.mount(path))?;
    }
    for (name, expected) in &check.rlimits {
        same(&format!("limit {name}"), &Some(*expected), &process.rlimit(name))?;
    }
    for (path, expected) in &check.devices {
        optional(&format!("device {path}"), expected, process.device(path))?;
    }
    for (path, expected) in &check.files {
        same(&format!("file {path}"), &Some(expected.clone()), &process.file(path))?;
    }
    for (name, expected) in &check.cgroup {
        resource(process, name, *expected)?;
    }
    if let Some(expected) = check.oom_score_adj {
        same("oom_score_adj", &Some(expected), &process.oom_score_adj())?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what}: {expected:?} expected, {got:?}")) }
}

/// Compares a text that may be absent; `false` expects that it is.
fn optional(what: &str, expected: &Value, got: Option<String>) -> Result<(), String> {
    value(what, expected, got.map(Value::from).as_ref())
}

/// Compares a value; `false` expects that it is absent, `true` that it is there.
pub(super) fn value(what: &str, expected: &Value, got: Option<&Value>) -> Result<(), String> {
    let is_same = match (expected, got) {
        (Value::Bool(presence), got) if got.is_none_or(|got| !got.is_boolean()) => {
            *presence == got.is_some()
        }
        (Value::Array(items), Some(Value::Array(got))) => {
            items.iter().all(|item| got.contains(item))
        }
        (expected, Some(got)) => plain(expected) == plain(got),
        (_, None) => false,
    };
    let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    if is_same { Ok(()) } else { Err(format!("{what}: {expected} expected, {}", show(got))) }
}

/// Returns the text of a number or a string: protojson has 64-bit numbers as strings.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_compared_by_meaning() {
        let ok = |expected: Value, got: Option<Value>| value("x", &expected, got.as_ref()).is_ok();
        assert!(ok(json!(5), Some(json!("5"))));
        assert!(!ok(json!(5), Some(json!(6))));
        assert!(ok(json!(false), None) && !ok(json!(false), Some(json!("a"))));
        assert!(ok(json!(true), Some(json!("a"))) && !ok(json!(true), None));
        assert!(ok(json!(["a"]), Some(json!(["b", "a"]))) && !ok(json!(["c"]), Some(json!([]))));
    }
}
