//! Values of cgroup v2 files: `linux.resources.unified`, identified by file name. The protocol has
//! no removal of a file: a leading `-` belongs to the name.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, field_or_default, map, text};
use nri_api::proto::{ContainerAdjustment, Field};
use nri_api::{PARTITION_FILES, RESOURCE_FIELDS, undone_by};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub(crate) fn read(resources: &Object) -> Read<HashMap<String, String>> {
    field_or_default(resources, "unified", map(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    for (name, value) in adjust.linux.resources.unified.iter().collect::<BTreeMap<_, _>>() {
        set_at(spec, &["linux", "resources", "unified"], name, value.as_str())
            .map_err(in_field("unified"))?;
    }
    remove_partition(spec, adjust);
    Ok(())
}

/// Removes what makes a container whose CPUs the adjustment sets a partition, see [`undone_by`],
/// unless the adjustment wants it.
fn remove_partition(spec: &mut Value, adjust: &ContainerAdjustment) {
    let resources = &adjust.linux.resources;
    let sets = |owner: &Field| {
        RESOURCE_FIELDS.iter().any(|f| f.owner.as_ref() == Some(owner) && f.is_set(resources))
    };
    let unified = spec.pointer_mut("/linux/resources/unified").and_then(Value::as_object_mut);
    let Some(unified) = unified else { return };
    for file in PARTITION_FILES {
        if undone_by(file).iter().any(sets) && !resources.unified.contains_key(file) {
            unified.shift_remove(file);
        }
    }
}
