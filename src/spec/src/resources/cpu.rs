//! CPU and cpuset controllers: `linux.resources.cpu`. `idle` and `burst`, which the protocol
//! does not have, are kept.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::object as object_at;
use crate::json::read::{Object, Read, field, object};
use crate::resources::{controller, diff::overlay_object};
use nri_api::proto::{ContainerAdjustment, LinuxResources};
use serde_json::Value;

pub(crate) fn read(resources: &Object, into: &mut LinuxResources) -> Read<()> {
    field(resources, "cpu", |value| {
        into.cpu.mut_or_insert_default();
        controller::read("cpu", object(value)?, into)
    })?;
    Ok(())
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let fields = to_oci(&adjust.linux.resources);
    if !fields.is_empty() {
        let target = object_at(spec, &["linux", "resources", "cpu"]).map_err(in_field("cpu"))?;
        overlay_object(target, &fields);
    }
    Ok(())
}

/// Returns the fields that the message sets, and no others.
pub(crate) fn to_oci(resources: &LinuxResources) -> Object {
    controller::to_oci("cpu", resources)
}
