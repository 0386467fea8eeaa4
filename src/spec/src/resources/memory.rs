//! Memory controller: `linux.resources.memory`.
//!
//! A limit of 0 is ignored, as in upstream NRI. The limit of swap may follow: see
//! [`swap`](crate::resources::swap).

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::object as object_at;
use crate::json::read::{Object, Read, field, object};
use crate::resources::swap::{LimitChange, MemoryLimits};
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
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let swap = derived_swap(spec, adjust, ctx);
    let mut fields = to_oci(&adjust.linux.resources);
    if fields.get(LIMIT.key()).is_some_and(|limit| *limit == 0) {
        fields.shift_remove(LIMIT.key());
    }
    if let Some(swap) = swap {
        fields.insert(SWAP.key().to_owned(), swap.into());
    }
    if !fields.is_empty() {
        let target =
            object_at(spec, &["linux", "resources", "memory"]).map_err(in_field("memory"))?;
        overlay_object(target, &fields);
    }
    Ok(())
}

/// Returns the limit of memory and swap that follows from the limit of memory in an adjustment.
pub(crate) fn derived_swap(
    spec: &Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Option<i64> {
    let resources = spec.pointer("/linux/resources").unwrap_or(&Value::Null);
    let mut by_plugins = MemoryLimits::of_message(&adjust.linux.resources);
    by_plugins.limit = by_plugins.limit.filter(|limit| *limit != 0);
    let by_engine = MemoryLimits::of_oci(resources);
    LimitChange { by_engine, by_plugins, is_creation: true, ..LimitChange::default() }
        .derived_swap(ctx.swap_accounting)
}

/// Returns the fields that the message sets, and no others.
pub(crate) fn to_oci(resources: &LinuxResources) -> Object {
    controller::to_oci("memory", resources)
}
