//! Compares the table of resource fields with the protocol's descriptors.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

use nri_api::proto::{Field, LinuxResources};
use nri_api::{FieldKind, RESOURCE_FIELDS, ResourceField, field_kind, fields_of, is_resource};
use protobuf::reflect::{ReflectValueBox, RuntimeFieldType, RuntimeType};
use protobuf::{Enum, MessageDyn};
use std::collections::BTreeSet;

/// Messages that group several fields; each other message is the value of one field.
const GROUPS: [&str; 3] = ["LinuxMemory", "LinuxCPU", "LinuxPids"];

/// Returns, for each field of the protocol, its path and a message that sets only this field.
fn one_field_each() -> Vec<(String, LinuxResources)> {
    fn messages(message: &dyn MessageDyn) -> Vec<(String, Box<dyn MessageDyn>)> {
        let descriptor = message.descriptor_dyn();
        let mut found = Vec::new();
        for field in descriptor.fields() {
            let mut add = |name: String, fill: &dyn Fn(&mut dyn MessageDyn)| {
                let mut message = descriptor.new_instance();
                fill(&mut *message);
                found.push((name, message));
            };
            let name = field.name().to_owned();
            match field.runtime_field_type() {
                RuntimeFieldType::Singular(RuntimeType::Message(inner))
                    if GROUPS.contains(&inner.name()) =>
                {
                    for (below, value) in messages(&*inner.new_instance()) {
                        add(format!("{name}.{below}"), &|m| {
                            let value = ReflectValueBox::Message(value.clone_box());
                            field.set_singular_field(m, value);
                        });
                    }
                }
                RuntimeFieldType::Singular(kind) => {
                    add(name, &|m| field.set_singular_field(m, value(&kind)));
                }
                RuntimeFieldType::Repeated(kind) => {
                    add(name, &|m| field.mut_repeated(m).push(value(&kind)));
                }
                RuntimeFieldType::Map(key, kind) => {
                    add(name, &|m| field.mut_map(m).insert(value(&key), value(&kind)));
                }
            }
        }
        found
    }
    let all = messages(&LinuxResources::new());
    all.into_iter()
        .map(|(name, message)| (name, *message.downcast_box::<LinuxResources>().unwrap()))
        .collect()
}

fn value(kind: &RuntimeType) -> ReflectValueBox {
    match kind {
        RuntimeType::I64 => ReflectValueBox::I64(7),
        RuntimeType::U64 => ReflectValueBox::U64(7),
        RuntimeType::Bool => ReflectValueBox::Bool(true),
        RuntimeType::String => ReflectValueBox::String("7".to_owned()),
        RuntimeType::Message(descriptor) => {
            let mut message = descriptor.new_instance();
            if let Some(field) = descriptor.field_by_name("value")
                && let RuntimeFieldType::Singular(kind) = field.runtime_field_type()
            {
                field.set_singular_field(&mut *message, value(&kind));
            }
            ReflectValueBox::Message(message)
        }
        other => panic!("no resource field is of the type {other:?}"),
    }
}

fn is_of_the_protocol(field: &&ResourceField) -> bool {
    !matches!(field.access, nri_api::Access::OciOnly)
}

#[test]
fn the_table_covers_every_resource_field_of_the_protocol() {
    let mut seen = BTreeSet::new();
    for (path, message) in one_field_each() {
        let set: Vec<_> = RESOURCE_FIELDS.iter().filter(|f| f.is_set(&message)).collect();
        let [field] = set.as_slice() else { panic!("{path}: {} rows", set.len()) };
        assert!(seen.insert(field.name), "{path}: {} has two fields of the protocol", field.name);
        let mut copy = LinuxResources::new();
        field.copy(&message, &mut copy);
        let is_single = !matches!(field.access, nri_api::Access::Entries(_));
        assert_eq!(copy == message, is_single, "{path}");
    }
    let rows: BTreeSet<_> =
        RESOURCE_FIELDS.iter().filter(is_of_the_protocol).map(|f| f.name).collect();
    assert_eq!(seen, rows);
}

#[test]
fn every_resource_field_except_device_rules_has_its_own_owner() {
    let mut owners = BTreeSet::new();
    for field in RESOURCE_FIELDS.iter().filter(is_of_the_protocol) {
        let Some(owner) = field.owner else {
            assert_eq!(field.name, "resources.devices");
            continue;
        };
        assert!(owners.insert(owner.value()), "{}", field.name);
        let is_single = !matches!(field.access, nri_api::Access::Entries(_));
        assert_eq!(field_kind(owner) == Some(FieldKind::Simple), is_single, "{}", field.name);
    }
    // The enum has the resource fields in one range.
    let resources = Field::MemLimit.value()..=Field::CgroupsUnified.value();
    let all = Field::VALUES.iter().map(Field::value).filter(|number| resources.contains(number));
    assert_eq!(owners, all.collect());
    assert!(is_resource(Field::RdtClass) && !is_resource(Field::Mounts));
}

#[test]
fn names_are_unique_and_spell_the_path() {
    let names: BTreeSet<_> = RESOURCE_FIELDS.iter().map(|field| field.name).collect();
    assert_eq!(names.len(), RESOURCE_FIELDS.len());
    let others = ["blockio_class", "rdt_class", "resources.devices"];
    for field in RESOURCE_FIELDS.iter().filter(|field| !others.contains(&field.name)) {
        assert_eq!(field.path.join("."), field.name);
    }
    let pids: Vec<_> = fields_of("pids").map(|field| (field.name, field.key())).collect();
    assert_eq!(pids, [("pids.limit", "limit")]);
}
