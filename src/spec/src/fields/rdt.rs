//! Explicit RDT fields: `linux.intelRdt`. They are applied after the RDT class.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_at, set_at};
use crate::json::read::{Object, Read, boolean, list, message, object, optional, text};
use nri_api::proto::{ContainerAdjustment, LinuxRdt};
use protobuf::MessageField;
use serde_json::Value;

const PATH: [&str; 2] = ["linux", "intelRdt"];

pub(crate) fn read(linux: &Object) -> Read<MessageField<LinuxRdt>> {
    message(linux, "intelRdt", |value| {
        let fields = object(value)?;
        let mut rdt = LinuxRdt::new();
        rdt.clos_id = optional(fields, "closID", text)?;
        rdt.schemata = optional(fields, "schemata", list(text))?;
        rdt.enable_monitoring = optional(fields, "enableMonitoring", boolean)?;
        Ok(rdt)
    })
}

/// Sets the explicit fields. A field whose value is empty or false is removed.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(rdt) = adjust.linux.rdt.as_ref() else { return Ok(()) };
    if rdt.remove {
        remove_at(spec, &["linux"], "intelRdt").map_err(in_field("rdt"))?;
    }
    let fields: [(&str, Option<Option<Value>>); 3] = [
        (
            "closID",
            rdt.clos_id.as_ref().map(|v| (!v.value.is_empty()).then(|| v.value.as_str().into())),
        ),
        (
            "schemata",
            rdt.schemata.as_ref().map(|v| (!v.value.is_empty()).then(|| v.value.as_slice().into())),
        ),
        ("enableMonitoring", rdt.enable_monitoring.as_ref().map(|v| v.value.then(|| true.into()))),
    ];
    for (key, value) in fields {
        match value {
            None => Ok(()),
            Some(None) => remove_at(spec, &PATH, key),
            Some(Some(value)) => set_at(spec, &PATH, key, value),
        }
        .map_err(in_field("rdt"))?;
    }
    Ok(())
}
