//! Checks that the committed tables of fields match the messages.
//! `NRI_REGENERATE=1 cargo test -p nri-api --test packed_fields` regenerates the tables. Regenerate
//! the messages (test `generated`) first.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

use nri_api::proto::*;
use protobuf::{
    MessageFull,
    reflect::{EnumDescriptor, MessageDescriptor, RuntimeFieldType, RuntimeType},
};
use std::{collections::BTreeMap, fs, path::Path};

const FILE: &str = "src/generated/fields.rs";

/// The definitions of the tables, by the names of their constants.
#[derive(Default)]
struct Tables(BTreeMap<String, String>);

/// Returns the name of the constant for a message or an enum: `PodSandbox` gives `POD_SANDBOX`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    for (n, c) in name.char_indices() {
        let after_lower = n > 0 && name[..n].ends_with(|b: char| b.is_ascii_lowercase());
        if c.is_ascii_uppercase() && after_lower {
            constant.push('_');
        }
        constant.push(c.to_ascii_uppercase());
    }
    constant
}

impl Tables {
    fn add_message(&mut self, message: &MessageDescriptor) -> String {
        let name = constant(message.name());
        if self.0.contains_key(&name) {
            return name;
        }
        // Inserted first, so that a message that contains itself does not recurse without end.
        self.0.insert(name.clone(), String::new());
        let mut fields: Vec<_> = message.fields().collect();
        fields.sort_by_key(|field| field.number());
        let mut text = format!("static {name}: &[Field] = &[\n");
        for field in fields {
            let (label, kind) = match field.runtime_field_type() {
                RuntimeFieldType::Singular(kind) => ("One", kind),
                RuntimeFieldType::Repeated(kind) => ("Repeated", kind),
                RuntimeFieldType::Map(RuntimeType::String, kind) => ("MapOfString", kind),
                RuntimeFieldType::Map(RuntimeType::I32, kind) => ("MapOfInt32", kind),
                RuntimeFieldType::Map(key, _) => panic!("{}: keys are {key:?}", field.full_name()),
            };
            let kind = self.kind(&kind);
            text += &format!(
                "    Field {{ number: {}, name: {:?}, original: {:?}, label: Label::{label}, \
                 kind: Kind::{kind} }},\n",
                field.number(),
                field.json_name(),
                field.name(),
            );
        }
        self.0.insert(name.clone(), text + "];\n");
        name
    }

    fn kind(&mut self, kind: &RuntimeType) -> String {
        match kind {
            RuntimeType::String => "String".to_owned(),
            RuntimeType::Bool => "Bool".to_owned(),
            RuntimeType::I32 => "Int32".to_owned(),
            RuntimeType::I64 => "Int64".to_owned(),
            RuntimeType::U32 => "Uint32".to_owned(),
            RuntimeType::U64 => "Uint64".to_owned(),
            RuntimeType::Enum(kind) => format!("Enum({})", self.add_enum(kind)),
            RuntimeType::Message(message) => format!("Message({})", self.add_message(message)),
            other => panic!("no kind for {other:?}"),
        }
    }

    fn add_enum(&mut self, kind: &EnumDescriptor) -> String {
        let name = constant(kind.name());
        let values: Vec<_> =
            kind.values().map(|v| format!("({}, {:?})", v.value(), v.name())).collect();
        let text =
            format!("static {name}: &[(i32, &str)] = &[\n    {},\n];\n", values.join(",\n    "));
        self.0.insert(name.clone(), text);
        name
    }
}

#[test]
fn the_committed_tables_are_up_to_date() {
    let mut tables = Tables::default();
    let file = Container::descriptor().file_descriptor().clone();
    let replies = file.messages().filter(|message| message.name().ends_with("Response"));
    let packable: Vec<_> = [
        Container::descriptor(),
        ContainerAdjustment::descriptor(),
        ContainerUpdate::descriptor(),
        FieldOwners::descriptor(),
        LinuxResources::descriptor(),
        PodSandbox::descriptor(),
    ]
    .into_iter()
    .chain(replies)
    .collect();
    let mut impls = String::new();
    for message in &packable {
        let (name, table) = (message.name(), tables.add_message(message));
        impls += &format!(
            "\nimpl Packable for {name} {{\n    fn fields() -> Fields {{\n        \
             Fields({table})\n    }}\n}}\n"
        );
    }
    let fresh = format!(
        "// @generated from the messages by the test packed_fields.\n\n\
         use crate::{{\n    field_table::{{Field, Kind, Label}},\n    \
         packed::{{Fields, Packable}},\n    proto::*,\n}};\n\n{}{impls}",
        tables.0.into_values().collect::<Vec<_>>().join("\n")
    );
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("NRI_REGENERATE").is_some() {
        fs::write(&committed, &fresh).unwrap();
    }
    assert!(
        fs::read_to_string(&committed).unwrap_or_default() == fresh,
        "src/api/{FILE} is stale: run NRI_REGENERATE=1 cargo test -p nri-api --test packed_fields"
    );
}
