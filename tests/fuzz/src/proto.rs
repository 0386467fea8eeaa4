//! All messages of the protocol, by number, and functions on any message.

use nri_api::proto::{Container, file_descriptor};
use protobuf::reflect::{MessageDescriptor, ReflectFieldRef, ReflectValueRef};
use protobuf::{MessageDyn, MessageFull};

/// Returns the descriptors of all messages except entries of maps, in the order of the protocol's
/// file. The first byte of an input selects a descriptor; a corpus stays valid as long as upstream
/// adds new messages at the end.
pub fn descriptors() -> Vec<MessageDescriptor> {
    debug_assert_eq!(Container::descriptor().file_descriptor(), file_descriptor());
    file_descriptor().messages().filter(|m| !m.is_map_entry()).collect()
}

/// Whether the message, or a message in it, has fields that this version of the protocol does not
/// define.
pub fn has_unknown(message: &dyn MessageDyn) -> bool {
    let within = |value: ReflectValueRef<'_>| match value {
        ReflectValueRef::Message(inner) => has_unknown(&*inner),
        _ => false,
    };
    message.special_fields_dyn().unknown_fields().iter().next().is_some()
        || message.descriptor_dyn().fields().any(|field| match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => value.value().is_some_and(within),
            ReflectFieldRef::Repeated(values) => values.into_iter().any(within),
            ReflectFieldRef::Map(values) => (&values).into_iter().any(|(_, value)| within(value)),
        })
}

/// Formats a message as protojson.
pub fn json(message: &dyn MessageDyn) -> String {
    protobuf_json_mapping::print_to_string(message).unwrap_or_else(|e| format!("{message:?}: {e}"))
}
