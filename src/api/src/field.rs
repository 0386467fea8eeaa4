//! The table of adjustable fields: name, owner, place in messages and in the OCI config, group of
//! permissions, and the words by which errors of runtimes name the field.
//!
//! [`FIELDS`] has all fields but the resources, whose rows, with more facts, are in
//! [`RESOURCE_FIELDS`]. Whatever lists fields takes them from [`fields`], and has none of its own.

use crate::field_row::{FieldKind, FieldRow, Form};
use crate::proto::Field;
use crate::resource_field::{RESCTRL, RESOURCE_FIELDS, ResourceField};
use std::collections::HashMap;
use std::sync::LazyLock;

macro_rules! row {
    ($name:literal, $owner:expr, $message:literal in $group:literal,
     [$($path:literal),*] $form:expr, $words:expr $(, $key:ident)?) => {
        FieldRow {
            name: $name,
            owner: $owner,
            message: $message,
            group: $group,
            path: &[$($path),*],
            form: $form,
            words: &$words,
            errors_name_key: row!(@ $($key)?),
        }
    };
    (@) => { false };
    (@ keys) => { true };
}

const RDT_CLASS: Option<Field> = Some(Field::RdtClass);

/// All fields but the resources, in the order in which changes are listed.
#[rustfmt::skip] // a row is one or two lines
pub const FIELDS: &[FieldRow] = &[
    row!("annotations", Some(Field::Annotations), "annotations" in "annotations",
        ["annotations"] Form::Map, ["annotation"], keys),
    row!("args", Some(Field::Args), "args" in "args",
        ["process", "args"] Form::Value, ["exec"]),
    row!("env", Some(Field::Env), "env" in "env",
        ["process", "env"] Form::Variables, ["exec"]),
    row!("mounts", Some(Field::Mounts), "mounts" in "mounts",
        ["mounts"] Form::List("destination"), ["mount"], keys),
    row!("devices", Some(Field::Devices), "linux.devices" in "devices",
        ["linux", "devices"] Form::List("path"), ["mknod", "device"], keys),
    row!("rlimits", Some(Field::Rlimits), "rlimits" in "rlimits",
        ["process", "rlimits"] Form::List("type"), ["rlimit"]),
    row!("oom_score_adj", Some(Field::OomScoreAdj), "linux.oom_score_adj" in "oom_score_adj",
        ["process", "oomScoreAdj"] Form::Value, ["oom_score_adj"]),
    row!("io_priority", Some(Field::IoPriority), "linux.io_priority" in "io_priority",
        ["process", "ioPriority"] Form::Value, ["ioprio", "io priority"]),
    row!("scheduler", Some(Field::LinuxSched), "linux.scheduler" in "scheduler",
        ["process", "scheduler"] Form::Value, ["sched_setattr", "scheduler"]),
    row!("cgroups_path", Some(Field::CgroupsPath), "linux.cgroups_path" in "cgroups_path",
        ["linux", "cgroupsPath"] Form::Value, ["cgroupspath", "cgroup path"]),
    row!("seccomp", Some(Field::SeccompPolicy), "linux.seccomp_policy" in "seccomp",
        ["linux", "seccomp"] Form::Value, ["seccomp"]),
    row!("namespaces", Some(Field::Namespace), "linux.namespaces" in "namespaces",
        ["linux", "namespaces"] Form::List("type"), ["namespace", "setns", "unshare"]),
    row!("sysctl", Some(Field::Sysctl), "linux.sysctl" in "sysctl",
        ["linux", "sysctl"] Form::Map, ["sysctl", "/proc/sys/"], keys),
    row!("net_devices", Some(Field::LinuxNetDevices), "linux.net_devices" in "net_devices",
        ["linux", "netDevices"] Form::Map, ["net device", "netdev"], keys),
    row!("rdt.closID", Some(Field::RdtClosID), "linux.rdt.clos_id" in "rdt",
        ["linux", "intelRdt", "closID"] Form::Value, RESCTRL),
    row!("rdt.schemata", Some(Field::RdtSchemata), "linux.rdt.schemata" in "rdt",
        ["linux", "intelRdt", "schemata"] Form::Value, RESCTRL),
    row!("rdt.enableMonitoring", Some(Field::RdtEnableMonitoring),
        "linux.rdt.enable_monitoring" in "rdt",
        ["linux", "intelRdt", "enableMonitoring"] Form::Value, RESCTRL),
    // A class or a CDI device may set these four.
    row!("rdt.l3CacheSchema", RDT_CLASS, "" in "rdt",
        ["linux", "intelRdt", "l3CacheSchema"] Form::Value, RESCTRL),
    row!("rdt.memBwSchema", RDT_CLASS, "" in "rdt",
        ["linux", "intelRdt", "memBwSchema"] Form::Value, RESCTRL),
    row!("rdt.enableCMT", RDT_CLASS, "" in "rdt",
        ["linux", "intelRdt", "enableCMT"] Form::Value, RESCTRL),
    row!("rdt.enableMBM", RDT_CLASS, "" in "rdt",
        ["linux", "intelRdt", "enableMBM"] Form::Value, RESCTRL),
    row!("rdt", None, "linux.rdt.remove" in "rdt", ["linux", "intelRdt"] Form::Parts, []),
    row!("memory_policy", Some(Field::MemoryPolicy), "linux.memory_policy" in "memory_policy",
        ["linux", "memoryPolicy"] Form::Value, ["mempolicy", "memory policy"]),
    row!("hooks", Some(Field::OciHooks), "hooks" in "hooks",
        ["hooks"] Form::AppendedByKey, ["hook"]),
    // The edits of CDI devices are in the places of other fields.
    row!("cdi_devices", Some(Field::CdiDevices), "CDI_devices" in "cdi_devices",
        [] Form::Map, ["mount", "hook", "mknod", "device"], keys),
];

/// Returns the rows of all fields: [`FIELDS`], then the resources.
pub fn fields() -> impl Iterator<Item = FieldRow> {
    FIELDS.iter().copied().chain(RESOURCE_FIELDS.iter().map(ResourceField::row))
}

/// Returns the row of a field of the protocol; `None` for [`Field::None`].
pub fn field_row(field: Field) -> Option<FieldRow> {
    // A merge looks up a field for each of its entries.
    static ROWS: LazyLock<HashMap<Field, FieldRow>> = LazyLock::new(|| {
        let own = fields().filter(|row| !row.message.is_empty());
        own.filter_map(|row| Some((row.owner?, row))).collect()
    });
    ROWS.get(&field).copied()
}

/// Returns the kind of `field`; `None` for [`Field::None`].
pub fn field_kind(field: Field) -> Option<FieldKind> {
    field_row(field).map(|row| row.kind())
}

/// Returns the name of `field` for messages.
pub fn field_name(field: Field) -> &'static str {
    field_row(field).map_or("", |row| row.name)
}

/// Returns the field whose plugin has also set `field` if that one has no owner: a quota is in one
/// file with its period, and a closID and the rest of `intelRdt` come from a class, or are removed
/// together.
pub fn also_set_by(field: Field) -> Option<Field> {
    match field {
        Field::CPUQuota => Some(Field::CPUPeriod),
        Field::RdtClosID => RDT_CLASS,
        Field::RdtClass => Some(Field::RdtClosID),
        _ => None,
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
        assert!(super::fields().all(|row| !row.group.is_empty()));
        assert!(FIELDS.iter().all(|row| row.owner.is_none() || !row.words.is_empty()));
        assert_eq!(full_name(Field::MemLimit, None), "memory.limit");
        assert_eq!(full_name(Field::BlockioClass, None), "blockio_class");
        assert_eq!(full_name(Field::CgroupsUnified, Some("memory.high")), "unified[memory.high]");
    }
}
