//! Splits the resources of an existing container by the way a field is updated: with the
//! runtime's `update`, by writing to control groups, or not at all. The table
//! [`RESOURCE_FIELDS`] assigns each field to one of the three.

use crate::{
    resources::{error::ResourceError, owners},
    state::record::Record,
};
use nri_api::{
    RESOURCE_FIELDS, ResourceField, Update,
    proto::{FieldOwners, LinuxResources},
};
use nri_spec::overlay;
use serde_json::{Map, Value, json};

/// Checks that a request sets no field that cannot be updated. `owners` is for errors.
///
/// # Errors
/// The request sets fields that cannot be updated; the error names them.
pub fn check_updatable(
    requested: &LinuxResources,
    owners: &FieldOwners,
) -> Result<(), ResourceError> {
    let names: Vec<_> = RESOURCE_FIELDS
        .iter()
        .filter(|field| field.update == Update::Never && field.is_set(requested))
        .map(|field| owners::with_owner(owners, field.name))
        .collect();
    if names.is_empty() { Ok(()) } else { Err(ResourceError::NotUpdatable(names)) }
}

/// Returns the fields that the runtime's `update` accepts, including unchanged fields, since runc
/// resets the fields that a request omits.
pub fn runtime_part(resources: &Value) -> Value {
    let mut part = Map::new();
    for field in RESOURCE_FIELDS.iter().filter(|field| field.update == Update::Runtime) {
        let value = field.path.iter().try_fold(resources, |value, key| value.get(key));
        let Some(value) = value.filter(|v| !v.is_null()) else { continue };
        match field.path {
            [group, key] => {
                let group = part.entry(*group).or_insert_with(|| Map::new().into());
                if let Value::Object(group) = group {
                    group.insert((*key).to_owned(), value.clone());
                }
            }
            [key] if value.as_object().is_some_and(|entries| !entries.is_empty()) => {
                part.insert((*key).to_owned(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(part)
}

/// Returns the resources for the runtime's `update`: the fields that it accepts, and whatever else
/// the engine's `document` has, which this runtime may understand. Each has its effective value.
pub fn for_runtime(effective: &Value, document: &Value) -> Value {
    let mut resources = runtime_part(effective);
    overlay(&mut resources, &selected(effective, document));
    for field in call_flags() {
        let value = field.path.iter().try_fold(document, |value, key| value.get(key));
        let value = value.filter(|value| !value.is_null()).cloned();
        if let (Some(value), [group, key]) = (value, field.path) {
            overlay(&mut resources, &json!({*group: {*key: value}}));
        }
    }
    resources
}

/// Returns the part of `resources` that `document` names.
fn selected(resources: &Value, document: &Value) -> Value {
    let (Value::Object(resources), Value::Object(document)) = (resources, document) else {
        return resources.clone();
    };
    let of =
        |(key, value): (&String, &Value)| Some((key.clone(), selected(resources.get(key)?, value)));
    document.iter().filter(|(_, value)| !value.is_null()).filter_map(of).collect()
}

/// Returns an engine's request without the flags that are of this call alone.
pub fn without_call_flags(document: &Value) -> Value {
    let mut fields = document.clone();
    for field in call_flags() {
        if let [group, key] = field.path
            && let Some(group) = fields.get_mut(group).and_then(Value::as_object_mut)
        {
            group.shift_remove(*key);
        }
    }
    fields
}

fn call_flags() -> impl Iterator<Item = &'static ResourceField> {
    RESOURCE_FIELDS.iter().filter(|field| field.update == Update::Call)
}

/// Returns the effective resources with the fields that an engine's update changes. Device rules
/// of plugins follow those of the engine, as at the creation.
pub fn with_request(record: &Record, fields: &Value) -> Value {
    let rules = |resources: &Value| resources.get("devices").and_then(Value::as_array).cloned();
    let mut resources = Value::clone(&record.effective);
    overlay(&mut resources, fields);
    if let (Some(mut new), Some(effective)) = (rules(fields), rules(&record.effective)) {
        let requested = rules(&record.requested).unwrap_or_default();
        let of_plugins = effective.strip_prefix(&requested[..]).unwrap_or_default();
        new.extend_from_slice(of_plugins);
        overlay(&mut resources, &json!({"devices": new}));
    }
    resources
}

/// Returns the fields that `nrid` must write to cgroups itself, since no runtime's `update` sets
/// them. Device rules are left out: `nrid` cannot write them, because in cgroup v2 they are a BPF
/// program of the runtime.
pub fn cgroup_part(resources: &Value) -> Value {
    let by_runtime = runtime_part(resources);
    let mut rest = resources.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("devices");
        for (group, excluded) in by_runtime.as_object().into_iter().flatten() {
            if let (Some(Value::Object(fields)), Some(excluded)) =
                (fields.get_mut(group), excluded.as_object())
            {
                fields.retain(|name, _| !excluded.contains_key(name));
            }
        }
        fields.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    rest
}

/// If the memory limit changes and the request does not set swap, sets `memory.swap` (the limit of
/// memory and swap together) to the new memory limit in three cases: both limits were equal before;
/// memory becomes unlimited; or the new memory limit is above the swap limit, which the runtime
/// would refuse. A missing or unlimited `memory.swap` stays. Returns whether it was set.
#[must_use = "a value that follows from another field has no owner"]
pub fn adapt_swap(before: &Value, swap_requested: bool, after: &mut Value) -> bool {
    let number = |resources: &Value, field| resources.pointer(field).and_then(Value::as_i64);
    let (old, new) = (number(before, "/memory/limit"), number(after, "/memory/limit"));
    let (Some(swap), Some(limit)) = (number(before, "/memory/swap").filter(|s| *s > 0), new) else {
        return false;
    };
    let is_coupled = old == Some(swap) || limit > swap || limit < 0;
    if !swap_requested
        && old != new
        && is_coupled
        && let Some(memory) = after.get_mut("memory").and_then(Value::as_object_mut)
    {
        memory.insert("swap".to_owned(), limit.into());
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::opt;

    #[test]
    fn the_runtime_part_has_updatable_fields_without_nulls() {
        let resources = json!({
            "devices": [{"allow": false}], "hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
            "memory": {"limit": 1, "kernel": 2, "swap": null}, "cpu": {"shares": null},
            "pids": {"limit": 0}, "unified": {}
        });
        assert_eq!(runtime_part(&resources), json!({"memory": {"limit": 1}, "pids": {"limit": 0}}));
    }

    #[test]
    fn swap_follows_the_memory_limit_unless_it_is_requested() {
        let memory = |limit: i64, swap: Option<i64>| {
            let mut memory = json!({"memory": {"limit": limit}});
            if let Some(swap) = swap {
                memory["memory"]["swap"] = swap.into();
            }
            memory
        };
        // Columns: resources before, resources after, swap requested, expected swap limit.
        for (before, after, swap_requested, swap) in [
            (memory(10, Some(10)), memory(20, Some(10)), false, Some(20)),
            (memory(10, Some(10)), memory(5, Some(10)), false, Some(5)),
            (memory(10, Some(30)), memory(20, Some(30)), false, Some(30)),
            (memory(10, Some(30)), memory(40, Some(30)), false, Some(40)),
            (memory(10, Some(10)), memory(-1, Some(10)), false, Some(-1)),
            (memory(10, Some(-1)), memory(20, Some(-1)), false, Some(-1)),
            (memory(10, Some(10)), memory(20, Some(25)), true, Some(25)),
            (memory(10, None), memory(20, None), false, None),
        ] {
            let mut result = after.clone();
            let is_set = adapt_swap(&before, swap_requested, &mut result);
            assert_eq!(is_set, result != after, "{before} {after}");
            assert_eq!(
                result.pointer("/memory/swap").and_then(Value::as_i64),
                swap,
                "{before} {after}"
            );
        }
    }

    #[test]
    fn fields_that_cannot_be_updated_are_named() {
        let mut resources = LinuxResources::new();
        assert!(check_updatable(&resources, &FieldOwners::default()).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        memory.swappiness = opt(Some(0));
        assert!(check_updatable(&resources, &FieldOwners::default()).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        (memory.kernel, memory.use_hierarchy) = (opt(Some(1)), opt(Some(true)));
        assert_eq!(
            check_updatable(&resources, &FieldOwners::default()).unwrap_err().to_string(),
            "cannot update memory.kernel, memory.useHierarchy of an existing container"
        );
    }

    #[test]
    fn the_cgroup_part_has_fields_that_update_does_not_set() {
        let resources = json!({
            "memory": {"limit": 1, "swappiness": 5}, "cpu": {"shares": 2},
            "devices": [{"allow": true}],
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}], "unified": {"memory.high": "1"},
            "blockIO": {"weight": 5, "throttleReadBpsDevice": []}
        });
        assert_eq!(
            cgroup_part(&resources),
            json!({
                "memory": {"swappiness": 5}, "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
                "blockIO": {"throttleReadBpsDevice": []}
            })
        );
        assert_eq!(cgroup_part(&json!({"cpu": {"shares": 2}})), json!({}));
    }
}
