//! Resource director technology: `linux.intelRdt`, by class and by explicit settings on top of it.
//!
//! A class becomes the control group (`closID`) of that name; making such groups and their schemata is the business of who
//! administers resctrl. The empty class removes. [`Classes`] knows the names from a configuration in goresctrl's format.

use crate::blockio::resolved;
use crate::context::ApplyContext;
use crate::edit::{in_field, remove_at, set_at};
use crate::error::ApplyError;
use crate::read::{Object, Read, boolean, field_or_default, list, map, message, object, optional, text};
use nri_api::proto::{ContainerAdjustment, LinuxRdt};
use protobuf::MessageField;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PATH: [&str; 2] = ["linux", "intelRdt"];
const CLASS: &str = "RDT class";

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

/// The class, which replaces all that was there.
pub(crate) fn apply_class(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(class) = adjust.linux.resources.rdt_class.as_ref().map(|c| c.value.as_str()) else {
        return Ok(());
    };
    let done = if class.is_empty() {
        remove_at(spec, &["linux"], "intelRdt")
    } else {
        let value = resolved(CLASS, class, (ctx.rdt)(class))?;
        set_at(spec, &["linux"], "intelRdt", value)
    };
    done.map_err(in_field(CLASS))
}

/// Explicit settings. An empty or false one is the same as none, and takes the field away.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(rdt) = adjust.linux.rdt.as_ref() else { return Ok(()) };
    if rdt.remove {
        remove_at(spec, &["linux"], "intelRdt").map_err(in_field("RDT"))?;
    }
    let settings: [(&str, Option<Option<Value>>); 3] = [
        ("closID", rdt.clos_id.as_ref().map(|v| (!v.value.is_empty()).then(|| v.value.as_str().into()))),
        ("schemata", rdt.schemata.as_ref().map(|v| (!v.value.is_empty()).then(|| v.value.as_slice().into()))),
        ("enableMonitoring", rdt.enable_monitoring.as_ref().map(|v| v.value.then(|| true.into()))),
    ];
    for (key, setting) in settings {
        match setting {
            None => Ok(()),
            Some(None) => remove_at(spec, &PATH, key),
            Some(Some(value)) => set_at(spec, &PATH, key, value),
        }
        .map_err(in_field("RDT"))?;
    }
    Ok(())
}

/// Names of the classes of an RDT configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes(BTreeSet<String>);

impl Classes {
    /// Reads the classes of all partitions: `{"partitions": {P: {"classes": {NAME: …}}}}`. Allocations are not looked at.
    pub fn parse(config: &Value) -> Result<Self, crate::WrongType> {
        let partitions = field_or_default(object(config)?, "partitions", map(read_partition))?;
        Ok(Self(partitions.into_values().flatten().collect()))
    }

    /// The `intelRdt` object of a class; goresctrl calls the root group `system/default`.
    pub fn resolve(&self, name: &str) -> Option<Value> {
        match name {
            "system/default" => Some(json!({ "closID": "/" })),
            _ => self.0.contains(name).then(|| json!({ "closID": name })),
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn read_partition(value: &Value) -> Read<Vec<String>> {
    let classes = field_or_default(object(value)?, "classes", map(|_| Ok(())))?;
    Ok(classes.into_keys().collect())
}
