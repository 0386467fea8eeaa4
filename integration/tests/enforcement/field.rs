//! Fields of the resources: the place of a field in OCI resources and in NRI messages, and the
//! content of the kernel's file that is correct for a value.

use nri_integration::{Node, is_cgroup_v2};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Place of a field in the OCI resources and in the NRI message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Group, name in the resources, and name in the message, where the value is wrapped in an
    /// object: `{"value": …}`. The last name is empty if plugins cannot set the field.
    Wrapped(&'static str, &'static str, &'static str),
    /// Group and name, which are equal in resources and message.
    Plain(&'static str, &'static str),
    /// The limit of huge pages of this size.
    Hugepages(&'static str),
    /// A file of cgroup v2 in `unified`.
    Unified(&'static str),
    /// A class of block I/O, which only the message has. Each class limits the read rate of the
    /// disk of [`crate::device::device`], and its name is this rate.
    BlockioClass,
}

/// Part of a file's content that is the field's value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// The whole content of the file.
    Whole,
    /// The n-th word on cgroup v2, counted from 0; the whole file on cgroup v1.
    Word(usize),
    /// The rest of the line that starts with this word.
    After(&'static str),
    /// The read rate of the disk: the rest of the disk's line on cgroup v1, and the value of
    /// `rbps=` in this line on cgroup v2.
    Rate,
}

/// A field of the resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Controller, file on cgroup v1, and file on cgroup v2; empty if the version has no such file.
    pub(crate) file: (&'static str, &'static str, &'static str),
    pub(crate) part: Part,
    /// Values as JSON, one for each step of a test; the engine requests the first value at the
    /// creation.
    pub(crate) values: &'static [&'static str],
    /// Whether the runtimes' `update` accepts the field.
    pub(crate) updatable: bool,
}

/// Values of a container's fields, by name.
pub(crate) type Values = BTreeMap<&'static str, Value>;

impl Field {
    /// Whether plugins can set the field.
    pub(crate) fn settable_by_plugins(&self) -> bool {
        !matches!(self.shape, Shape::Wrapped(_, _, ""))
    }

    /// Whether the engine can set the field.
    pub(crate) fn settable_by_engine(&self) -> bool {
        !matches!(self.shape, Shape::BlockioClass)
    }

    /// Returns the field's value in a step; after the last value, the first one follows again.
    pub(crate) fn value(&self, step: usize) -> Value {
        serde_json::from_str(self.values[step % self.values.len()]).expect("the table holds JSON")
    }

    /// Returns `linux.resources` with only this field.
    pub(crate) fn resources(&self, value: &Value) -> Value {
        match self.shape {
            Shape::Wrapped(group, name, _) | Shape::Plain(group, name) => {
                json!({group: {name: value}})
            }
            Shape::Hugepages(size) => {
                json!({"hugepageLimits": [{"pageSize": size, "limit": value}]})
            }
            Shape::Unified(key) => json!({"unified": {key: value}}),
            Shape::BlockioClass => json!({}),
        }
    }

    /// Returns the message `LinuxResources` with only this field.
    pub(crate) fn message(&self, value: &Value) -> Value {
        match self.shape {
            Shape::Wrapped(group, _, name) => json!({group: {name: {"value": value}}}),
            Shape::Plain(group, name) => json!({group: {name: value}}),
            Shape::Hugepages(size) => {
                json!({"hugepageLimits": [{"pageSize": size, "limit": value}]})
            }
            Shape::Unified(key) => json!({"unified": {key: value}}),
            Shape::BlockioClass => json!({"blockioClass": {"value": value}}),
        }
    }

    /// Returns the field's value in OCI resources or a message, in which numbers may be strings.
    pub(crate) fn value_in(&self, resources: &Value) -> Option<Value> {
        let value = match self.shape {
            Shape::Wrapped(group, name, message) => {
                let group = &resources[group];
                group
                    .get(name)
                    .filter(|v| !v.is_object())
                    .or_else(|| group.get(message)?.get("value"))
            }
            Shape::Plain(group, name) => resources[group].get(name),
            Shape::Hugepages(size) => resources["hugepageLimits"]
                .as_array()?
                .iter()
                .find(|limit| limit["pageSize"] == size)
                .and_then(|limit| limit.get("limit")),
            Shape::Unified(key) => resources["unified"].get(key),
            Shape::BlockioClass => resources["blockioClass"].get("value"),
        }?;
        // The JSON of a message has 64-bit numbers as strings. Other strings, such as lists of
        // CPUs, are returned unchanged: their values in the table are not JSON numbers.
        let is_number = self.values[0].parse::<i64>().is_ok();
        match value.as_str().filter(|_| is_number).map(str::parse::<i64>) {
            Some(Ok(number)) => Some(number.into()),
            _ => Some(value.clone()),
        }
    }

    /// Returns the message `ContainerUpdate` that sets this field of a container.
    pub(crate) fn update(&self, id: &str, value: &Value) -> Value {
        json!({"containerId": id, "linux": {"resources": self.message(value)}})
    }

    /// Reads the value from the kernel's file; `None` if the file does not exist.
    pub(crate) fn read(&self, node: &Node, id: &str) -> Option<String> {
        let (controller, v1, v2) = self.file;
        if (if is_cgroup_v2() { v2 } else { v1 }).is_empty() {
            return None;
        }
        let text = node.try_cgroup_file(id, controller, v1, v2).ok()?;
        let after = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            found.unwrap_or_default().to_owned()
        };
        Some(match self.part {
            Part::Word(n) if is_cgroup_v2() => {
                text.split(' ').nth(n).unwrap_or_default().to_owned()
            }
            Part::Whole | Part::Word(_) => text,
            Part::After(key) => after(key),
            Part::Rate => {
                let words = after(&crate::device::device()?.1);
                let rate =
                    words.split(' ').map(|word| word.strip_prefix("rbps=").unwrap_or(word)).next();
                rate.unwrap_or_default().to_owned()
            }
        })
    }

    /// Returns the values in the kernel's file that are correct for a requested value. `all` are
    /// the values of all fields of the container.
    pub(crate) fn expected(&self, value: &Value, all: &Values) -> Vec<String> {
        let number = value.as_i64();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let limit = all.get("memory.limit").and_then(Value::as_i64).unwrap_or_default();
        match self.name {
            "memory.disableOOMKiller" => vec![u8::from(value == true).to_string()],
            "cpu.shares" if is_cgroup_v2() => weights(number.unwrap_or_default()),
            // memory.swap includes memory in OCI resources, but not in the file of cgroup v2.
            "memory.swap" if is_cgroup_v2() => {
                vec![(number.unwrap_or_default() - limit).to_string()]
            }
            "blockIO.weight" if is_cgroup_v2() => {
                let n = number.unwrap_or_default();
                // The runtime writes the value to `io.bfq.weight`, and a converted value to
                // `io.weight`.
                vec![
                    n.to_string(),
                    format!("default {n}"),
                    format!("default {}", 1 + (n - 10) * 9999 / 990),
                ]
            }
            "cpu.cpus" => vec![text.clone(), text.replace("0,1", "0-1")],
            _ => vec![text],
        }
    }

    /// Checks that the value is effective in the kernel. `when` is part of the failure message.
    #[track_caller]
    pub(crate) fn check(&self, node: &Node, id: &str, value: &Value, all: &Values, when: &str) {
        let found = self.read(node, id);
        let expected = self.expected(value, all);
        assert!(
            found.as_ref().is_some_and(|f| expected.contains(f)),
            "{} {when}: {found:?} instead of {expected:?} ({}, {id})\n{}",
            self.name,
            node.runtime().name,
            node.ctl(&["verify", "--all", id]).out()
        );
    }
}

/// Returns the values of cpu.weight that runtimes write for a value of cpu.shares: older runtimes
/// convert linearly, newer ones by a quadratic function of the logarithm, which converts the
/// default of 1024 shares to the default weight of 100.
fn weights(shares: i64) -> Vec<String> {
    let log = (shares as f64).log2();
    let quadratic = 10f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil() as i64;
    let linear = 1 + (shares - 2) * 9999 / 262_142;
    vec![linear.to_string(), quadratic.to_string()]
}

/// Merges several resources, each of a single field.
pub(crate) fn join(resources: impl IntoIterator<Item = Value>) -> Value {
    let mut all = Map::new();
    for resources in resources {
        for (group, part) in resources.as_object().into_iter().flatten() {
            match (all.get_mut(group), part) {
                (Some(Value::Object(merged)), Value::Object(more)) => merged.extend(more.clone()),
                (Some(Value::Array(merged)), Value::Array(more)) => {
                    merged.extend(more.iter().cloned())
                }
                (_, part) => drop(all.insert(group.clone(), part.clone())),
            }
        }
    }
    Value::Object(all)
}
