//! Splits the resources of an existing container by the way a field is updated: with the
//! runtime's `update`, by writing to control groups, or not at all. The table
//! [`RESOURCE_FIELDS`] assigns each field to one of the three.

use crate::{error::ResourceError, resources::owners, state::record::Record};
use nri_api::{
    Access, RESOURCE_FIELDS, Update,
    proto::{FieldOwners, LinuxResources},
};
use nri_spec::overlay;
use protobuf::Enum;
use serde_json::{Map, Value, json};

/// A flag for `update` itself, which is no value of the container.
const CALL_FLAG: &str = "/memory/checkBeforeUpdate";

/// Checks that plugins set no field that cannot be updated. `owners` has the fields that they set.
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
        .filter(|field| field.owner.is_none_or(|owner| owners.simple.contains_key(&owner.value())))
        .map(|field| owners::with_owner(owners, field.name))
        .collect();
    if names.is_empty() { Ok(()) } else { Err(ResourceError::NotUpdatable(names)) }
}

/// Returns the fields that the runtime's `update` accepts, including unchanged fields, since runc
/// resets the fields that a request omits.
pub fn runtime_part(resources: &Value) -> Value {
    part(resources, Update::Runtime)
}

/// Returns the fields that `nrid` must write to cgroups itself, since no runtime's `update` sets
/// them.
pub fn cgroup_part(resources: &Value) -> Value {
    part(resources, Update::File)
}

/// Returns the fields that are updated in this way. Of a list or map that is a field, null and
/// empty ones are left out.
fn part(resources: &Value, update: Update) -> Value {
    let mut part = Map::new();
    for field in RESOURCE_FIELDS.iter().filter(|field| field.update == update) {
        let value = field.path.iter().try_fold(resources, |value, key| value.get(key));
        let Some(value) = value.filter(|v| !v.is_null()) else { continue };
        match field.path {
            [group, key] => {
                let group = part.entry(*group).or_insert_with(|| Map::new().into());
                if let Value::Object(group) = group {
                    group.insert((*key).to_owned(), value.clone());
                }
            }
            [key] if matches!(field.access, Access::Entries(_)) && !is_empty(value) => {
                part.insert((*key).to_owned(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(part)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty)
}

/// Returns the resources for the runtime's `update`: the fields that it accepts, and whatever else
/// the engine's `document` has, which this runtime may understand. Each has its effective value,
/// but the flag of this call is the engine's.
pub fn for_runtime(effective: &Value, document: &Value) -> Value {
    let mut resources = runtime_part(effective);
    overlay(&mut resources, &selected(effective, document));
    if let Some(flag) = document.pointer(CALL_FLAG) {
        overlay(&mut resources, &json!({"memory": {"checkBeforeUpdate": flag}}));
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

/// Returns an engine's request without the flag that is of this call alone.
pub fn without_call_flag(document: &Value) -> Value {
    let mut fields = document.clone();
    if let Some(flag) = fields.pointer_mut(CALL_FLAG) {
        *flag = Value::Null;
    }
    fields
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
    fn fields_that_cannot_be_updated_are_named() {
        let mut resources = LinuxResources::new();
        assert!(check_updatable(&resources, &FieldOwners::default()).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        memory.swappiness = opt(Some(0));
        assert!(check_updatable(&resources, &FieldOwners::default()).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        (memory.kernel, memory.use_hierarchy) = (opt(Some(1)), opt(Some(true)));
        // They are the engine's.
        assert!(check_updatable(&resources, &FieldOwners::default()).is_ok());
        let by_plugin = owners::of_plugin(&resources, "10-a");
        assert_eq!(
            check_updatable(&resources, &by_plugin).unwrap_err().to_string(),
            "cannot update memory.kernel (set by plugin \"10-a\"), memory.useHierarchy (set by \
             plugin \"10-a\") of an existing container"
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
