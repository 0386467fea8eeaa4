//! Parts of a reply that have no effect: fields that this version of the protocol does not know,
//! device cgroup rules in an update, and a memory limit of 0. The merge reports these parts;
//! upstream NRI drops them silently.

use crate::unknown::Unknown;
use nri_api::proto::{ContainerAdjustment, ContainerUpdate};
use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};
use std::fmt;

/// Limit of paths recorded per plugin and request: enough to find the mistake in a large reply.
pub(crate) const MAX_PATHS: usize = 16;

/// Returns the paths of the fields of an adjustment that have no effect.
pub(crate) fn in_adjustment(requested: &ContainerAdjustment) -> Vec<String> {
    let mut found = Vec::new();
    if requested.linux.resources.memory.limit.as_ref().is_some_and(|limit| limit.value == 0) {
        found.push("adjust.linux.resources.memory.limit: a limit of 0 is ignored".to_owned());
    }
    if requested.has_unknown() {
        add_unknown_fields(requested, &Path { parent: None, name: "adjust" }, &mut found);
    }
    found
}

/// Returns the paths of the fields of an update that have no effect.
pub(crate) fn in_update(requested: &ContainerUpdate) -> Vec<String> {
    let mut found = Vec::new();
    if !requested.linux.resources.devices.is_empty() {
        found.push("update.linux.resources.devices".to_owned());
    }
    if requested.has_unknown() {
        add_unknown_fields(requested, &Path { parent: None, name: "update" }, &mut found);
    }
    found
}

/// Path of a field: its name, and the path of its message.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    name: &'a str,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) => write!(f, "{parent}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// Adds the path of each unknown field once. The last component of the path is the field's number.
fn add_unknown_fields(message: &dyn MessageDyn, path: &Path<'_>, found: &mut Vec<String>) {
    // Values of one field follow each other: their path is built only for the first of them.
    let mut last_number = 0;
    for (number, _) in message.special_fields_dyn().unknown_fields() {
        if found.len() >= MAX_PATHS {
            return;
        }
        if std::mem::replace(&mut last_number, number) != number {
            let unknown = format!("{path}.{number}");
            if !found.contains(&unknown) {
                found.push(unknown);
            }
        }
    }
    let mut visit = |value: ReflectValueRef<'_>, name: &str| {
        if let ReflectValueRef::Message(message) = value {
            add_unknown_fields(&*message, &Path { parent: Some(path), name }, found);
        }
    };
    for field in message.descriptor_dyn().fields() {
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                value.value().into_iter().for_each(|v| visit(v, field.name()))
            }
            ReflectFieldRef::Repeated(values) => {
                values.into_iter().for_each(|v| visit(v, field.name()))
            }
            ReflectFieldRef::Map(values) => {
                values.into_iter().for_each(|(_, v)| visit(v, field.name()))
            }
        }
    }
}
