//! `unified["cpu.idle"]`. The protocol has no other field for it, and its file has the same name
//! and values in both versions of cgroups, but no runtime takes `unified` in cgroup v1. There the
//! runtime gets `cpu.idle` of the OCI config, which is for both.

use crate::json::edit::{remove_at, set_at};
use crate::json::number::same_value;
use nri_api::{ResourceField, entry_name, resource_field};
use serde_json::Value;

const IDLE: &ResourceField = resource_field("cpu.idle");
const SHARES: &ResourceField = resource_field("cpu.shares");
const UNIFIED: &ResourceField = resource_field("unified");

/// The file of `cpu.idle`, and the key of its entry.
pub(crate) const FILE: &str = IDLE.v2[0];

/// Returns the name of the entry, as that of a field.
pub fn idle_entry_name() -> String {
    entry_name(UNIFIED.name, FILE)
}

/// Returns the value of the entry in a `linux.resources`; `None` if it is neither 0 nor 1.
pub fn idle_entry(resources: &Value) -> Option<u8> {
    value(resources.get(UNIFIED.key())?.get(FILE)?)
}

/// Reads the text of the entry.
pub(crate) fn value(text: &Value) -> Option<u8> {
    match text.as_str()?.trim() {
        "0" => Some(0),
        "1" => Some(1),
        _ => None,
    }
}

/// Turns the entry of a `linux.resources` into the field. If both are there, the entry counts, as
/// in cgroup v2, where runtimes write it last. An entry with another value stays.
pub fn idle_entry_to_field(resources: &mut Value) {
    if let Some(value) = idle_entry(resources)
        && set_at(resources, &["cpu"], IDLE.key(), value).is_ok()
    {
        remove(resources, UNIFIED.key(), FILE);
    }
}

/// Removes the weight of a `linux.resources` with the entry: an idle cgroup has none.
pub fn take_shares(resources: &mut Value) {
    remove(resources, "cpu", SHARES.key());
}

/// Turns the field of a `linux.resources` into the entry again, and puts a weight back that was
/// taken. `before` are the resources that had no entry.
pub fn idle_field_to_entry(resources: &mut Value, before: &Value) {
    let shares = |resources: &Value| resources.get("cpu")?.get(SHARES.key()).cloned();
    if idle_entry(resources) == Some(1)
        && shares(resources).is_none()
        && let Some(shares) = shares(before)
    {
        // A group that is no object is an error of the engine's file, which is as it was.
        drop(set_at(resources, &["cpu"], SHARES.key(), shares));
    }
    let field = |resources: &Value| resources.get("cpu")?.get(IDLE.key()).cloned();
    let (Some(value), old) = (field(resources), field(before)) else { return };
    if old.as_ref().is_some_and(|old| same_value(old, &value))
        || set_at(resources, &[UNIFIED.key()], FILE, value.to_string()).is_err()
    {
        return;
    }
    match old {
        Some(old) => drop(set_at(resources, &["cpu"], IDLE.key(), old)),
        None => remove(resources, "cpu", IDLE.key()),
    }
}

/// Removes a key of a group, and the group if it is empty then.
fn remove(resources: &mut Value, group: &str, key: &str) {
    let is_empty = |resources: &Value| {
        resources.get(group).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
    };
    if remove_at(resources, &[group], key).is_ok()
        && is_empty(resources)
        && let Some(groups) = resources.as_object_mut()
    {
        groups.shift_remove(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_entry_becomes_the_field_and_the_field_the_entry() {
        for (before, entry, field) in [
            (json!({}), json!({"unified": {"cpu.idle": "1"}}), json!({"cpu": {"idle": 1}})),
            (
                json!({"cpu": {"shares": 5, "quota": null}, "unified": {"a.b": "2"}}),
                json!({"cpu": {"shares": 5, "quota": null},
                    "unified": {"a.b": "2", "cpu.idle": "0"}}),
                json!({"cpu": {"shares": 5, "quota": null, "idle": 0}, "unified": {"a.b": "2"}}),
            ),
            (
                json!({"cpu": {"idle": 1}}),
                json!({"cpu": {"idle": 1}, "unified": {"cpu.idle": "0"}}),
                json!({"cpu": {"idle": 0}}),
            ),
        ] {
            let mut resources = entry.clone();
            idle_entry_to_field(&mut resources);
            assert_eq!(resources, field, "{entry}");
            idle_field_to_entry(&mut resources, &before);
            assert_eq!(resources, entry);
        }
    }

    #[test]
    fn what_is_no_value_of_the_file_stays() {
        for resources in [
            json!(null),
            json!({"cpu": {"idle": 1}}),
            json!({"unified": null}),
            json!({"unified": {"cpu.idle": "2"}}),
            json!({"unified": {"cpu.idle": "1\n0"}}),
            json!({"unified": {"cpu.idle": 1}}),
            json!({"cpu": 5, "unified": {"cpu.idle": "1"}}),
        ] {
            let mut same = resources.clone();
            idle_entry_to_field(&mut same);
            assert_eq!(same, resources);
            idle_field_to_entry(&mut same, &resources);
            assert_eq!(same, resources);
        }
        assert_eq!(idle_entry(&json!({"unified": {"cpu.idle": " 1\n"}})), Some(1));
    }
}
