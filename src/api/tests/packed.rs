//! Compares packed messages and their JSON with the results of protobuf's reflection.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

use nri_api::{
    Packable, Packed,
    proto::{Container, FieldOwners, PodSandbox},
};
use protobuf::{
    Message, MessageFull,
    reflect::{MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType},
};
use serde_json::Value;

/// Returns a value that is not the default of its type. Different `n` give different values, except
/// for booleans.
fn value(kind: &RuntimeType, n: i32) -> ReflectValueBox {
    match kind {
        RuntimeType::String => ReflectValueBox::String(format!("t\"\\\u{1}ü{n}")),
        RuntimeType::Bool => ReflectValueBox::Bool(true),
        RuntimeType::I32 => ReflectValueBox::I32(-n),
        RuntimeType::I64 => ReflectValueBox::I64(i64::MIN + i64::from(n)),
        RuntimeType::U32 => ReflectValueBox::U32(u32::MAX - n as u32),
        RuntimeType::U64 => ReflectValueBox::U64(u64::MAX - n as u64),
        RuntimeType::Enum(kind) => {
            // 0 is the default. An enum without a value at this position gets an unknown number.
            let numbers: Vec<_> = kind.values().map(|v| v.value()).filter(|v| *v != 0).collect();
            let known = numbers.get(n as usize % 3).copied();
            ReflectValueBox::Enum(kind.clone(), known.unwrap_or(-7 - n))
        }
        RuntimeType::Message(message) => ReflectValueBox::Message(full(message, n)),
        other => panic!("{other:?}"),
    }
}

/// Returns a message in which all fields are set, lists and maps to four values.
fn full(descriptor: &MessageDescriptor, n: i32) -> Box<dyn protobuf::MessageDyn> {
    let mut message = descriptor.new_instance();
    for (at, field) in (n + 1..).zip(descriptor.fields()) {
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) => {
                field.set_singular_field(&mut *message, value(&kind, at));
            }
            RuntimeFieldType::Repeated(kind) => {
                let mut list = field.mut_repeated(&mut *message);
                (at..at + 4).for_each(|n| list.push(value(&kind, n)));
            }
            RuntimeFieldType::Map(key, kind) => {
                let mut map = field.mut_map(&mut *message);
                (at..at + 4).for_each(|n| map.insert(value(&key, n), value(&kind, n)));
            }
        }
    }
    message
}

/// Checks that packing and JSON preserve a message with all fields, and an empty message.
fn check<M: Packable + MessageFull>() {
    let message = *full(&M::descriptor(), 0).downcast_box::<M>().unwrap();
    let packed = Packed::new(&message);
    assert_eq!(packed.get(), message);
    let text = serde_json::to_string(&packed).unwrap();
    let by_reflection = protobuf_json_mapping::print_to_string(&message).unwrap();
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parse(&text), parse(&by_reflection));
    // Earlier releases read and write records by reflection.
    assert_eq!(protobuf_json_mapping::parse_from_str::<M>(&text).unwrap(), message);
    for text in [&text, &by_reflection] {
        assert_eq!(serde_json::from_str::<Packed<M>>(text).unwrap().get(), message);
    }
    let empty = Packed::new(&M::new());
    assert_eq!(serde_json::to_string(&empty).unwrap(), "{}");
    assert_eq!(serde_json::from_str::<Packed<M>>("{}").unwrap().get(), M::new());
}

#[test]
fn packed_messages_have_the_json_of_reflection() {
    check::<Container>();
    check::<PodSandbox>();
    check::<FieldOwners>();
}

#[test]
fn both_names_of_a_field_are_read_and_wrong_names_and_types_are_refused() {
    let read = |text: &str| serde_json::from_str::<Packed<PodSandbox>>(text);
    assert_eq!(read(r#"{"runtime_handler": "a"}"#).unwrap().get().runtime_handler, "a");
    assert_eq!(read(r#"{"runtimeHandler": "a"}"#).unwrap().get().runtime_handler, "a");
    for broken in [
        r#"{"handler": "a"}"#,
        r#"{"pid": "x"}"#,
        r#"{"pid": -1}"#,
        r#"{"pid": 4294967296}"#,
        r#"{"name": 1}"#,
        r#"{"ips": "a"}"#,
        r#"{"linux": []}"#,
        "[]",
    ] {
        assert!(read(broken).is_err(), "{broken}");
    }
    assert_eq!(read(r#"{"pid": "7"}"#).unwrap().get().pid, 7);
}

#[test]
fn single_fields_are_read_without_decoding_the_message() {
    let container = *full(&Container::descriptor(), 0).downcast_box::<Container>().unwrap();
    let packed = Packed::new(&container);
    assert_eq!(packed.text(&["id"]), container.id);
    assert_eq!(packed.text(&["linux", "cgroups_path"]), container.linux.cgroups_path);
    assert_eq!((packed.text(&["none"]), packed.text(&["id", "none"])), ("", ""));
    assert!(packed.has(&["hooks", "poststop"]) && !packed.has(&["none"]));
    assert!(!Packed::<Container>::default().has(&["hooks", "poststop"]));
    assert_eq!(packed.number("created_at"), container.created_at);
    assert_eq!(
        (packed.number("exit_code"), packed.number("none")),
        (container.exit_code.into(), 0)
    );
    for (key, value) in &container.annotations {
        assert_eq!(packed.entry("annotations", key), Some(value.as_str()));
    }
    assert_eq!((packed.entry("annotations", "none"), packed.entry("none", "a")), (None, None));
}

#[test]
fn a_change_affects_only_the_changed_clone() {
    let mut packed = Packed::<PodSandbox>::default();
    let before = packed.clone();
    packed.change(|pod| pod.name = "n".to_owned());
    assert_eq!((packed.text(&["name"]), before.text(&["name"])), ("n", ""));
    // Field 2 (`name`), of type 2 (text), with length 1.
    assert_eq!(packed.get().write_to_bytes().unwrap(), b"\x12\x01n");
}
