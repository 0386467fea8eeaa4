//! Memory controller: `linux.resources.memory`.
//!
//! A limit brings a swap limit of the same value (memory and swap together, so: no swap) unless the
//! plugin gives one. A limit of 0 is none, as it is upstream.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{object as object_at, put};
use crate::json::read::{Object, Read, boolean, integer, message, object, optional};
use crate::resources::diff::overlay_object;
use nri_api::proto::{ContainerAdjustment, LinuxMemory};
use protobuf::MessageField;
use serde_json::Value;

pub(crate) fn read(resources: &Object) -> Read<MessageField<LinuxMemory>> {
    message(resources, "memory", |value| {
        let fields = object(value)?;
        let mut memory = LinuxMemory::new();
        memory.limit = optional(fields, "limit", integer)?;
        memory.reservation = optional(fields, "reservation", integer)?;
        memory.swap = optional(fields, "swap", integer)?;
        memory.kernel = optional(fields, "kernel", integer)?;
        memory.kernel_tcp = optional(fields, "kernelTCP", integer)?;
        memory.swappiness = optional(fields, "swappiness", integer)?;
        memory.disable_oom_killer = optional(fields, "disableOOMKiller", boolean)?;
        memory.use_hierarchy = optional(fields, "useHierarchy", boolean)?;
        Ok(memory)
    })
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let memory = &adjust.linux.resources.memory;
    let mut fields = to_oci(memory);
    match memory.limit.as_ref().map(|l| l.value) {
        None => {}
        Some(0) => drop(fields.shift_remove("limit")),
        Some(limit) if memory.swap.is_none() => drop(fields.insert("swap".into(), limit.into())),
        Some(_) => {}
    }
    if !fields.is_empty() {
        let target =
            object_at(spec, &["linux", "resources", "memory"]).map_err(in_field("memory"))?;
        overlay_object(target, &fields);
    }
    Ok(())
}

/// What is given, and nothing else.
pub(crate) fn to_oci(memory: &LinuxMemory) -> Object {
    let mut fields = Object::new();
    put(&mut fields, "limit", &memory.limit);
    put(&mut fields, "reservation", &memory.reservation);
    put(&mut fields, "swap", &memory.swap);
    put(&mut fields, "kernel", &memory.kernel);
    put(&mut fields, "kernelTCP", &memory.kernel_tcp);
    put(&mut fields, "swappiness", &memory.swappiness);
    put(&mut fields, "disableOOMKiller", &memory.disable_oom_killer);
    put(&mut fields, "useHierarchy", &memory.use_hierarchy);
    fields
}
