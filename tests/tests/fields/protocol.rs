//! Field paths from the descriptors of the protocol, and messages with chosen fields set.

use protobuf::reflect::{
    FieldDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
};
use protobuf::{MessageDyn, MessageFull};
use std::collections::BTreeSet;

/// Messages that only group fields. Any other message is the value of one field.
const GROUPS: &[&str] =
    &["Hooks", "LinuxContainerAdjustment", "LinuxResources", "LinuxMemory", "LinuxCPU", "LinuxRdt"];

/// Text that [`fixed`] chooses for every string.
pub(crate) const KEY: &str = "key";

/// Returns the paths of all fields that can be set on their own, in the protocol's names.
pub(crate) fn paths<M: MessageFull>() -> BTreeSet<String> {
    fn walk(message: &MessageDescriptor, prefix: &str, found: &mut BTreeSet<String>) {
        for field in message.fields() {
            let path = format!("{prefix}{}", field.name());
            match group(&field) {
                Some(inner) => walk(&inner, &format!("{path}."), found),
                None => assert!(found.insert(path)),
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&M::descriptor(), "", &mut found);
    found
}

/// Returns the field at `path`, if the message has it.
fn field_at<M: MessageFull>(path: &str) -> Option<FieldDescriptor> {
    let (mut message, mut found) = (Some(M::descriptor()), None);
    for name in path.split('.') {
        let field = message.take()?.field_by_name(name)?;
        if let RuntimeFieldType::Singular(RuntimeType::Message(inner)) = field.runtime_field_type()
        {
            message = Some(inner);
        }
        found = Some(field);
    }
    found
}

/// Whether a message has a field at `path`.
pub(crate) fn has_field<M: MessageFull>(path: &str) -> bool {
    field_at::<M>(path).is_some()
}

/// Whether the field at `path` is a map.
pub(crate) fn is_map<M: MessageFull>(path: &str) -> bool {
    field_at::<M>(path).is_some_and(|field| field.is_map())
}

/// Returns the name of a field as protojson spells it.
pub(crate) fn json_name(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    let mut is_upper_next = false;
    let rest = rest.chars().filter_map(|c| {
        let is_upper = std::mem::replace(&mut is_upper_next, c == '_');
        (c != '_').then_some(if is_upper { c.to_ascii_uppercase() } else { c })
    });
    first.chars().chain(rest).collect()
}

/// Returns the message type of a field, if the message only groups fields.
fn group(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.runtime_field_type() {
        RuntimeFieldType::Singular(RuntimeType::Message(inner))
            if GROUPS.contains(&inner.name()) =>
        {
            Some(inner)
        }
        _ => None,
    }
}

/// Returns the paths of all values below the field at `path`, as protojson spells them. The step
/// `[]` stands for any key of a map; a list has no step. A message that only wraps a value counts
/// as this value. The result is empty if the protocol has no such field.
pub(crate) fn leaves<M: MessageFull>(path: &str) -> Vec<String> {
    fn walk(field: &FieldDescriptor, prefix: &str, found: &mut Vec<String>) {
        let path = format!("{prefix}{}", field.proto().json_name());
        let (kind, step) = match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) | RuntimeFieldType::Repeated(kind) => (kind, "."),
            RuntimeFieldType::Map(_, kind) => (kind, ".[]."),
        };
        match kind {
            RuntimeType::Message(inner) if !inner.name().starts_with("Optional") => {
                inner.fields().for_each(|field| walk(&field, &format!("{path}{step}"), found));
            }
            _ => found.push(path),
        }
    }
    let (mut message, mut prefix, mut found) = (M::descriptor(), String::new(), Vec::new());
    let mut steps = path.split('.').peekable();
    while let Some(field) = steps.next().and_then(|name| message.field_by_name(name)) {
        match group(&field).filter(|_| steps.peek().is_some()) {
            None => walk(&field, &prefix, &mut found),
            Some(inner) => {
                prefix = format!("{prefix}{}.", field.proto().json_name());
                message = inner;
            }
        }
    }
    found
}

/// Function that chooses the value of a field by the path and type of the field. The type is never
/// a message. A path that ends with `[]` is the path of the keys of a map.
pub(crate) type Choose<'a> = &'a mut dyn FnMut(&str, &RuntimeType) -> ReflectValueBox;

/// Returns a message with only the field at `path` set. If the value is a message, all its fields
/// are set; a list or map has one entry.
pub(crate) fn only<M: MessageFull>(path: &str, choose: Choose<'_>) -> M {
    let mut message = M::new();
    set(&mut message, "", path, choose);
    message
}

fn set(message: &mut dyn MessageDyn, prefix: &str, path: &str, choose: Choose<'_>) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let field = message.descriptor_dyn().field_by_name(name).unwrap();
    let path = format!("{prefix}{name}");
    if let Some(rest) = rest {
        return set(&mut *field.mut_message(message), &format!("{path}."), rest, choose);
    }
    match field.runtime_field_type() {
        RuntimeFieldType::Singular(kind) => {
            field.set_singular_field(message, value(&path, &kind, choose))
        }
        RuntimeFieldType::Repeated(kind) => {
            field.mut_repeated(message).push(value(&path, &kind, choose))
        }
        RuntimeFieldType::Map(key, kind) => {
            let key = value(&format!("{path}[]"), &key, choose);
            field.mut_map(message).insert(key, value(&path, &kind, choose));
        }
    }
}

fn value(path: &str, kind: &RuntimeType, choose: Choose<'_>) -> ReflectValueBox {
    let RuntimeType::Message(kind) = kind else { return choose(path, kind) };
    let mut message = kind.new_instance();
    for field in kind.fields() {
        set(&mut *message, &format!("{path}."), field.name(), choose);
    }
    ReflectValueBox::Message(message)
}

/// Chooses the same value for every path. The value is not the default of its type: 7 is odd, which
/// gives the boolean `true`.
pub(crate) fn fixed(path: &str, kind: &RuntimeType) -> ReflectValueBox {
    of_number(path, kind, 7, KEY)
}

/// Returns a value of this type made of a number or, for a string, of a text.
pub(crate) fn of_number(path: &str, kind: &RuntimeType, number: u8, text: &str) -> ReflectValueBox {
    match kind {
        RuntimeType::I32 => ReflectValueBox::I32(number.into()),
        RuntimeType::I64 => ReflectValueBox::I64(number.into()),
        RuntimeType::U32 => ReflectValueBox::U32(number.into()),
        RuntimeType::U64 => ReflectValueBox::U64(number.into()),
        RuntimeType::Bool => ReflectValueBox::Bool(number % 2 == 1),
        RuntimeType::String => ReflectValueBox::String(text.to_owned()),
        RuntimeType::Enum(kind) => {
            let others = kind.values().count().saturating_sub(1).max(1); // 0 means "not set"
            let nth = kind.values().nth(1 + usize::from(number) % others).unwrap();
            ReflectValueBox::Enum(kind.clone(), nth.value())
        }
        other => panic!("{path}: no value of type {other:?}"),
    }
}
