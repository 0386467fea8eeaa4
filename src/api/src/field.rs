//! Ownership and name of each adjustable [`Field`].
//!
//! A field has one name in all messages, in logs and in documents. The names of
//! resource fields are in [`RESOURCE_FIELDS`], all others here.

use crate::proto::Field;
use crate::resource_field::RESOURCE_FIELDS;

/// Ownership of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// One owner (`FieldOwners.simple`).
    Simple,
    /// One owner per key (`FieldOwners.compound`).
    Compound,
    /// No owner: the contributions of all plugins add up, without conflicts.
    Accumulated,
}

/// Returns the kind of `field`; `None` for [`Field::None`].
pub fn field_kind(field: Field) -> Option<FieldKind> {
    match field {
        Field::None => None,
        Field::OciHooks => Some(FieldKind::Accumulated),
        Field::Annotations
        | Field::Mounts
        | Field::Devices
        | Field::CdiDevices
        | Field::Env
        | Field::HugepageLimits
        | Field::CgroupsUnified
        | Field::Rlimits
        | Field::Namespace
        | Field::Sysctl
        | Field::LinuxNetDevices => Some(FieldKind::Compound),
        _ => Some(FieldKind::Simple),
    }
}

/// Returns the name of `field` for messages.
pub fn field_name(field: Field) -> &'static str {
    match field {
        Field::Annotations => "annotations",
        Field::Mounts => "mounts",
        Field::OciHooks => "hooks",
        Field::Devices => "devices",
        Field::CdiDevices => "cdi_devices",
        Field::Env => "env",
        Field::Args => "args",
        Field::CgroupsPath => "cgroups_path",
        Field::OomScoreAdj => "oom_score_adj",
        Field::Rlimits => "rlimits",
        Field::IoPriority => "io_priority",
        Field::SeccompPolicy => "seccomp",
        Field::Namespace => "namespaces",
        Field::Sysctl => "sysctl",
        Field::LinuxNetDevices => "net_devices",
        Field::LinuxSched => "scheduler",
        Field::RdtClosID => "rdt.closID",
        Field::RdtSchemata => "rdt.schemata",
        Field::RdtEnableMonitoring => "rdt.enableMonitoring",
        Field::MemoryPolicy => "memory_policy",
        resource => {
            // The first row of an owner is the field of the protocol.
            let row = RESOURCE_FIELDS.iter().find(|row| row.owner == Some(resource));
            row.map_or("", |row| row.name)
        }
    }
}

/// Returns the name of one entry of a field with keys, such as `env[PATH]`.
pub fn entry_name(field: &str, key: &str) -> String {
    format!("{field}[{key}]")
}

/// Returns the name of a field, or of the entry with this key.
pub fn full_name(field: Field, key: Option<&str>) -> String {
    let name = field_name(field);
    key.map_or_else(|| name.to_owned(), |key| entry_name(name, key))
}

/// Returns who set a field, for the text after its name; empty if no plugin did.
pub fn set_by<'a>(plugins: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = plugins.into_iter().map(|plugin| format!("\"{plugin}\"")).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" (set by plugin {one})"),
        many => format!(" (set by plugins {})", many.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::Enum;
    use std::collections::BTreeSet;

    #[test]
    fn every_field_has_a_name_of_its_own() {
        let fields = || Field::VALUES.iter().filter(|field| **field != Field::None);
        let names: BTreeSet<_> = fields().map(|field| field_name(*field)).collect();
        assert_eq!(names.len(), fields().count());
        assert!(!names.contains(""));
        assert_eq!(full_name(Field::MemLimit, None), "memory.limit");
        assert_eq!(full_name(Field::BlockioClass, None), "blockio_class");
        assert_eq!(full_name(Field::CgroupsUnified, Some("memory.high")), "unified[memory.high]");
    }
}
