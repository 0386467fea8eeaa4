//! What a reply asks for and gets no effect: fields that this version of the protocol does not know, rules of the device cgroup in an
//! update, which has no say in them, and a memory limit of 0. Upstream drops them without a word; here they are reported.

use nri_api::proto::{ContainerAdjustment, ContainerUpdate};
use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};

/// Paths of what has no effect in an adjustment.
pub(crate) fn in_adjustment(asked: &ContainerAdjustment) -> Vec<String> {
    let mut found = Vec::new();
    if asked.linux.resources.memory.limit.as_ref().is_some_and(|limit| limit.value == 0) {
        found.push("adjust.linux.resources.memory.limit: 0 is no limit".to_owned());
    }
    unknown(asked, "adjust", &mut found);
    found
}

/// Paths of what has no effect in an update.
pub(crate) fn in_update(asked: &ContainerUpdate) -> Vec<String> {
    let mut found = Vec::new();
    if !asked.linux.resources.devices.is_empty() {
        found.push("update.linux.resources.devices".to_owned());
    }
    unknown(asked, "update", &mut found);
    found
}

fn unknown(message: &dyn MessageDyn, path: &str, found: &mut Vec<String>) {
    let fields = message.special_fields_dyn().unknown_fields();
    found.extend(fields.iter().map(|(number, _)| format!("{path}.{number}")));
    let mut inner = |value: ReflectValueRef<'_>, name: &str| {
        if let ReflectValueRef::Message(message) = value {
            unknown(&*message, &format!("{path}.{name}"), found);
        }
    };
    for field in message.descriptor_dyn().fields() {
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                value.value().into_iter().for_each(|v| inner(v, field.name()))
            }
            ReflectFieldRef::Repeated(values) => values.into_iter().for_each(|v| inner(v, field.name())),
            ReflectFieldRef::Map(values) => values.into_iter().for_each(|(_, v)| inner(v, field.name())),
        }
    }
}
