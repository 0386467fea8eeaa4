//! Writer of the notation that [`Input`](crate::Input) reads. Seeds are real messages in this
//! notation.

use crate::input::{EDGES, EDGES_FROM, END};
use protobuf::MessageDyn;
use protobuf::reflect::{ReflectFieldRef, ReflectValueRef};

/// Writes a part: its bytes and [`END`]. The bytes must not contain [`END`].
pub fn part(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes);
    out.push(END);
}

/// Writes a number.
pub fn number(number: i64, out: &mut Vec<u8>) {
    match (u8::try_from(number), EDGES.iter().position(|edge| *edge == number)) {
        (Ok(small), _) if small < EDGES_FROM => out.push(small),
        (_, Some(edge)) => out.push(EDGES_FROM + edge as u8),
        _ => {
            out.push(END);
            out.extend(number.to_le_bytes());
        }
    }
}

/// Writes a message. As on the wire, fields with their default value are omitted. Maps are sorted.
pub fn message(message: &dyn MessageDyn, out: &mut Vec<u8>) {
    for (field, tag) in message.descriptor_dyn().fields().zip(1..) {
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                if let Some(set) = value.value().filter(|_| field.has_field(message)) {
                    out.push(tag);
                    field_value(set, out);
                }
            }
            ReflectFieldRef::Repeated(values) => values.into_iter().for_each(|entry| {
                out.push(tag);
                field_value(entry, out);
            }),
            ReflectFieldRef::Map(values) => {
                let mut entries = Vec::new();
                for (key, entry) in &values {
                    let mut bytes = vec![tag];
                    field_value(key, &mut bytes);
                    field_value(entry, &mut bytes);
                    entries.push(bytes);
                }
                entries.sort();
                entries.into_iter().for_each(|bytes| out.extend(bytes));
            }
        }
    }
    out.push(0);
}

/// Writes a value of a field.
fn field_value(value: ReflectValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ReflectValueRef::I32(n) | ReflectValueRef::Enum(_, n) => number(n.into(), out),
        ReflectValueRef::I64(n) => number(n, out),
        ReflectValueRef::U32(n) => number(n.into(), out),
        ReflectValueRef::U64(n) => number(n as i64, out),
        ReflectValueRef::F32(n) => number(n as i64, out),
        ReflectValueRef::F64(n) => number(n as i64, out),
        ReflectValueRef::Bool(b) => out.push(b.into()),
        ReflectValueRef::String(text) => part(text.as_bytes(), out),
        ReflectValueRef::Bytes(bytes) => part(bytes, out),
        ReflectValueRef::Message(inner) => message(&*inner, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use nri_api::proto::ContainerAdjustment;

    #[test]
    fn a_written_message_is_read_back() {
        // The numbers 243 and 244 need nine bytes, since the bytes from `EDGES_FROM` on stand for
        // other numbers.
        let json = r#"{
            "annotations": {"a": "1", "-b": "", "ü": "x"}, "args": ["", "sh"],
            "env": [{"key": "A", "value": "B"}, {}],
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": "18446744073709551615", "soft": "1024"}],
            "linux": {
                "resources": {
                    "memory": {"limit": {"value": "-1"}},
                    "cpu": {"shares": {"value": "243"}, "quota": {"value": "244"}},
                    "pids": {}
                },
                "oomScoreAdj": {"value": "-999"},
                "ioPriority": {"class": "IOPRIO_CLASS_RT"}
            }
        }"#;
        let original: ContainerAdjustment = protobuf_json_mapping::parse_from_str(json).unwrap();
        let mut bytes = Vec::new();
        message(&original, &mut bytes);
        // A number behind the message shows that exactly the message is read.
        number(77, &mut bytes);
        let mut input = Input::new(&bytes);
        assert_eq!(input.message::<ContainerAdjustment>(), original);
        assert_eq!((input.number(), input.is_empty()), (77, true));
    }
}
