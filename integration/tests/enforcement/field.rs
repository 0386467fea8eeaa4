//! The fields of the resources: how resources and messages write them, and what the kernel's files
//! hold then.

use nri_integration::{Node, unified_cgroups};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where a field is, in the OCI resources and in NRI's message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Group, name in the resources, name in the message, where it is a message of its own,
    /// `{"value": …}`.
    Wrapped(&'static str, &'static str, &'static str),
    /// Group and name, the same in both.
    Plain(&'static str, &'static str),
    /// The limit of a size of huge pages.
    Hugepages(&'static str),
    /// A file of cgroup v2, named as such.
    Unified(&'static str),
    /// A class of block I/O, named by its read rate: only in the message. The device is the one of
    /// [`Field::key`].
    BlockioClass,
}

/// What of a file's content is the field's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    Whole,
    /// A word of its only line.
    Word(usize),
    /// What follows this word in its line.
    After(&'static str),
    /// The read rate of a device: the rest of its line in version 1, `rbps=` in version 2.
    Rate,
}

/// A field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Controller, with its file in cgroup v1, and the file in cgroup v2; empty where it has none.
    pub(crate) file: (&'static str, &'static str, &'static str),
    pub(crate) part: Part,
    /// Values as JSON, used in turn; the first one is what the engine requests.
    pub(crate) values: &'static [&'static str],
    /// Whether the runtimes' `update` takes it.
    pub(crate) updatable: bool,
}

/// The values of a container's fields, by name.
pub(crate) type Values = BTreeMap<&'static str, Value>;

impl Field {
    /// Whether plugins can set it by itself.
    pub(crate) fn is_plugins(&self) -> bool {
        !matches!(self.shape, Shape::Wrapped(_, _, ""))
    }

    /// Whether the engine can set it.
    pub(crate) fn is_engines(&self) -> bool {
        !matches!(self.shape, Shape::BlockioClass)
    }

    /// Value of a step.
    pub(crate) fn value(&self, step: usize) -> Value {
        serde_json::from_str(self.values[step % self.values.len()]).expect("the table holds JSON")
    }

    /// `linux.resources` with this field alone.
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

    /// `LinuxResources` with this field alone.
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

    /// Its value in resources or a message, which may write numbers as texts.
    pub(crate) fn value_in(&self, resources: &Value) -> Option<Value> {
        let found = match self.shape {
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
        // Sixty-four bits are a text in a message's JSON; lists of CPUs are texts as well, and ours
        // are never numbers there.
        let is_number = self.values[0].parse::<i64>().is_ok();
        match found.as_str().filter(|_| is_number).map(str::parse::<i64>) {
            Some(Ok(number)) => Some(number.into()),
            _ => Some(found.clone()),
        }
    }

    /// An update of a container, as a message.
    pub(crate) fn update(&self, id: &str, value: &Value) -> Value {
        json!({"containerId": id, "linux": {"resources": self.message(value)}})
    }

    /// What the kernel holds; none where there is no such file.
    pub(crate) fn found(&self, node: &Node, id: &str) -> Option<String> {
        let (controller, v1, v2) = self.file;
        if (if unified_cgroups() { v2 } else { v1 }).is_empty() {
            return None;
        }
        let text = node.kernel_file(id, controller, v1, v2).ok()?;
        let after = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            found.unwrap_or_default().to_owned()
        };
        Some(match self.part {
            Part::Word(n) if unified_cgroups() => {
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

    /// What the kernel is to hold for a value: one of these. `all` are the values of the other
    /// fields.
    pub(crate) fn expected(&self, value: &Value, all: &Values) -> Vec<String> {
        let number = value.as_i64();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let limit = all.get("memory.limit").and_then(Value::as_i64).unwrap_or_default();
        match self.name {
            "memory.disableOOMKiller" => vec![u8::from(value == true).to_string()],
            "cpu.shares" if unified_cgroups() => weights(number.unwrap_or_default()),
            // Version 2 counts swap by itself.
            "memory.swap" if unified_cgroups() => {
                vec![(number.unwrap_or_default() - limit).to_string()]
            }
            "blockIO.weight" if unified_cgroups() => {
                let n = number.unwrap_or_default();
                // `io.bfq.weight` takes it as it is, `io.weight` converted.
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

    /// Checks what the kernel holds.
    #[track_caller]
    pub(crate) fn check(&self, node: &Node, id: &str, value: &Value, all: &Values, when: &str) {
        let found = self.found(node, id);
        let expected = self.expected(value, all);
        assert!(
            found.as_ref().is_some_and(|f| expected.contains(f)),
            "{} {when}: {found:?} instead of {expected:?} ({}, {id})\n{}",
            self.name,
            node.runtime().name,
            node.ctl(&["verify", id]).out()
        );
    }
}

/// cpu.weight of cpu.shares: by a straight line in older runtimes, by a curve through the defaults
/// in newer ones.
fn weights(shares: i64) -> Vec<String> {
    let l = (shares as f64).log2();
    let curved = 10f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil() as i64;
    vec![(1 + (shares - 2) * 9999 / 262_142).to_string(), curved.to_string()]
}

/// Lays resources of single fields together.
pub(crate) fn join(resources: impl IntoIterator<Item = Value>) -> Value {
    let mut all = Map::new();
    for resources in resources {
        for (group, part) in resources.as_object().into_iter().flatten() {
            match (all.get_mut(group), part) {
                (Some(Value::Object(there)), Value::Object(more)) => there.extend(more.clone()),
                (Some(Value::Array(there)), Value::Array(more)) => {
                    there.extend(more.iter().cloned())
                }
                (_, part) => drop(all.insert(group.clone(), part.clone())),
            }
        }
    }
    Value::Object(all)
}
