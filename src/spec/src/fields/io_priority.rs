//! I/O priority of the process: `process.ioPriority`. `IOPRIO_CLASS_NONE` removes the field.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_at, set_at};
use crate::json::read::{Object, Read, field, field_or_default, integer, object, text};
use nri_api::proto::{ContainerAdjustment, Field, IOPrioClass, LinuxIOPriority};
use protobuf::{Enum, MessageField};
use serde_json::{Value, json};

/// Reads the priority; returns no message if the protocol lacks its class.
pub(crate) fn read(process: &Object) -> Read<MessageField<LinuxIOPriority>> {
    let read = field(process, "ioPriority", |value| {
        let fields = object(value)?;
        let class = field_or_default(fields, "class", text)?;
        let mut priority = LinuxIOPriority::new();
        priority.priority = field_or_default(fields, "priority", integer)?;
        Ok(IOPrioClass::from_str(&class).map(|class| {
            priority.class = class.into();
            priority
        }))
    })?;
    Ok(read.flatten().into())
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(priority) = adjust.linux.io_priority.as_ref() else { return Ok(()) };
    let class = priority.class.enum_value();
    let class = class.map_err(|value| ApplyError::UnknownValue {
        field: Field::IoPriority,
        part: "class",
        value,
    })?;
    let result = if class == IOPrioClass::IOPRIO_CLASS_NONE {
        remove_at(spec, &["process"], "ioPriority")
    } else {
        let value = json!({ "class": format!("{class:?}"), "priority": priority.priority });
        set_at(spec, &["process"], "ioPriority", value)
    };
    result.map_err(in_field("io_priority"))
}
