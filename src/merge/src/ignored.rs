//! What a reply asks for and gets no effect: fields that this version of the protocol does not
//! know, rules of the device cgroup in an update, which has no say in them, and a memory limit of
//! 0. Upstream drops them without a word; here they are reported.

use nri_api::proto::{ContainerAdjustment, ContainerUpdate};
use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};
use std::fmt;

/// As many paths as are noted of one plugin's replies to a request: enough to see what is wrong.
pub(crate) const MOST: usize = 16;

/// Paths of what has no effect in an adjustment.
pub(crate) fn in_adjustment(asked: &ContainerAdjustment) -> Vec<String> {
    let mut found = Vec::new();
    if asked.linux.resources.memory.limit.as_ref().is_some_and(|limit| limit.value == 0) {
        found.push("adjust.linux.resources.memory.limit: 0 is no limit".to_owned());
    }
    unknown(asked, &Path { parent: None, name: "adjust" }, &mut found);
    found
}

/// Paths of what has no effect in an update.
pub(crate) fn in_update(asked: &ContainerUpdate) -> Vec<String> {
    let mut found = Vec::new();
    if !asked.linux.resources.devices.is_empty() {
        found.push("update.linux.resources.devices".to_owned());
    }
    unknown(asked, &Path { parent: None, name: "update" }, &mut found);
    found
}

/// A field, and the message that it is in.
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

/// Numbers of unknown fields, each path once.
fn unknown(message: &dyn MessageDyn, path: &Path<'_>, found: &mut Vec<String>) {
    let mut last = 0;
    for (number, _) in message.special_fields_dyn().unknown_fields() {
        if found.len() >= MOST {
            return;
        }
        if std::mem::replace(&mut last, number) != number {
            let unknown = format!("{path}.{number}");
            if !found.contains(&unknown) {
                found.push(unknown);
            }
        }
    }
    let mut inner = |value: ReflectValueRef<'_>, name: &str| {
        if let ReflectValueRef::Message(message) = value {
            unknown(&*message, &Path { parent: Some(path), name }, found);
        }
    };
    for field in message.descriptor_dyn().fields() {
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                value.value().into_iter().for_each(|v| inner(v, field.name()))
            }
            ReflectFieldRef::Repeated(values) => {
                values.into_iter().for_each(|v| inner(v, field.name()))
            }
            ReflectFieldRef::Map(values) => {
                values.into_iter().for_each(|(_, v)| inner(v, field.name()))
            }
        }
    }
}
