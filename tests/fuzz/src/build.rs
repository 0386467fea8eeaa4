//! Builds a message from arbitrary bytes, by the descriptors of the protocol.

use crate::Input;
use protobuf::reflect::{ReflectValueBox, RuntimeFieldType, RuntimeType};
use protobuf::{MessageDyn, MessageFull};

impl Input<'_> {
    /// Takes a message, in the notation of [`crate::write`].
    pub fn message<M: MessageFull>(&mut self) -> M {
        let mut message = M::new();
        fill(&mut message, self);
        message
    }
}

/// Sets fields until a zero byte. One byte selects the field, the value follows; for a repeated
/// field or a map, the value is one more entry.
fn fill(message: &mut dyn MessageDyn, input: &mut Input<'_>) {
    let fields: Vec<_> = message.descriptor_dyn().fields().collect();
    loop {
        let tag = usize::from(input.byte());
        if tag == 0 || fields.is_empty() {
            return;
        }
        let field = &fields[(tag - 1) % fields.len()];
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) => {
                field.set_singular_field(message, value(&kind, input))
            }
            RuntimeFieldType::Repeated(kind) => {
                field.mut_repeated(message).push(value(&kind, input))
            }
            RuntimeFieldType::Map(key, kind) => {
                let key = value(&key, input);
                field.mut_map(message).insert(key, value(&kind, input));
            }
        }
    }
}

/// Takes a value. Numbers are truncated to their type.
fn value(kind: &RuntimeType, input: &mut Input<'_>) -> ReflectValueBox {
    match kind {
        RuntimeType::I32 => ReflectValueBox::I32(input.number() as i32),
        RuntimeType::I64 => ReflectValueBox::I64(input.number()),
        RuntimeType::U32 => ReflectValueBox::U32(input.number() as u32),
        RuntimeType::U64 => ReflectValueBox::U64(input.number() as u64),
        RuntimeType::F32 => ReflectValueBox::F32(input.number() as f32),
        RuntimeType::F64 => ReflectValueBox::F64(input.number() as f64),
        RuntimeType::Bool => ReflectValueBox::Bool(input.byte() & 1 == 1),
        RuntimeType::String => ReflectValueBox::String(input.text().into_owned()),
        RuntimeType::VecU8 => ReflectValueBox::Bytes(input.part().to_vec()),
        RuntimeType::Enum(descriptor) => {
            ReflectValueBox::Enum(descriptor.clone(), input.number() as i32)
        }
        RuntimeType::Message(descriptor) => {
            let mut message = descriptor.new_instance();
            fill(&mut *message, input);
            ReflectValueBox::Message(message)
        }
    }
}
