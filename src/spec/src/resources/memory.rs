//! Memory controller: `linux.resources.memory`.
//!
//! A limit also sets `swap` to the same value, unless the plugin sets `swap`. The field limits
//! memory and swap together, so the container then cannot swap. A limit of 0 is ignored, as in
//! upstream NRI.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::object as object_at;
use crate::json::read::{Object, Read, field, object};
use crate::resources::{controller, diff::overlay_object};
use nri_api::proto::{ContainerAdjustment, LinuxResources};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const LIMIT: &ResourceField = resource_field("memory.limit");
const SWAP: &ResourceField = resource_field("memory.swap");

pub(crate) fn read(resources: &Object, into: &mut LinuxResources) -> Read<()> {
    field(resources, "memory", |value| {
        into.memory.mut_or_insert_default();
        controller::read("memory", object(value)?, into)
    })?;
    Ok(())
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let mut fields = to_oci(&adjust.linux.resources);
    match fields.get(LIMIT.key()).cloned() {
        None => {}
        Some(limit) if limit == 0 => drop(fields.shift_remove(LIMIT.key())),
        Some(limit) => drop(fields.entry(SWAP.key()).or_insert(limit)),
    }
    if !fields.is_empty() {
        let target =
            object_at(spec, &["linux", "resources", "memory"]).map_err(in_field("memory"))?;
        overlay_object(target, &fields);
    }
    Ok(())
}

/// Returns the fields that the message sets, and no others.
pub(crate) fn to_oci(resources: &LinuxResources) -> Object {
    controller::to_oci("memory", resources)
}
