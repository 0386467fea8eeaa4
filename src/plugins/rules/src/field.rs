//! The fields that rules set: their names, units and values in messages of NRI.

use crate::quantity::Unit;
use nri_api::{
    Access, RESOURCE_FIELDS, entry_name,
    proto::{Container, HugepageLimit, LinuxResources},
};
use nri_plugin::SetResources;
use std::fmt::{self, Display};

/// The period of a quota where a container has none, in microseconds, as in runc and the kernel.
pub(crate) const DEFAULT_PERIOD: i64 = 100_000;

/// A field or an entry that rules can change. Its text is its name in all messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A field with one value.
    Field(&'static FieldRow),
    /// An entry of a map.
    Entry(Group, String),
}

/// A map of a container that rules change by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub(crate) enum Group {
    Hugepages,
    Unified,
    Env,
    Rlimits,
    Sysctl,
    Annotations,
    Mounts,
    Devices,
    Cdi,
}

impl Group {
    /// Returns the name of the map.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hugepages => "hugepageLimits",
            Self::Unified => "unified",
            Self::Env => "env",
            Self::Rlimits => "rlimits",
            Self::Sysctl => "sysctl",
            Self::Annotations => "annotations",
            Self::Mounts => "mounts",
            Self::Devices => "devices",
            Self::Cdi => "cdi_devices",
        }
    }

    /// Returns the unit of its values.
    pub(crate) fn unit(self) -> Option<Unit> {
        match self {
            Self::Hugepages => Some(Unit::Bytes),
            Self::Rlimits => Some(Unit::Plain),
            _ => None,
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(row) => f.write_str(row.name),
            Self::Entry(group, key) => f.write_str(&entry_name(group.name(), key)),
        }
    }
}

impl Key {
    /// Returns the field whose value decides, too, whether a limit of this one holds: CPUs are the
    /// quota divided by the period, and the limit of memory and swap is one of memory.
    pub(crate) fn depends_on(&self) -> Option<Self> {
        match self {
            quota if *quota == QUOTA => Some(PERIOD),
            swap if *swap == SWAP => Some(MEMORY),
            _ => None,
        }
    }

    /// Whether a value was requested. Engines write 0 for what was not, where 0 is no amount.
    pub(crate) fn is_requested(&self, value: &FieldValue) -> bool {
        let zero_is_amount = match self {
            Self::Field(row) => row.name == "memory.swappiness",
            Self::Entry(..) => true,
        };
        zero_is_amount || *value != FieldValue::Number(0)
    }
}

/// A value of a field or an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldValue {
    /// A number in the unit of the protocol.
    Number(i64),
    /// A text.
    Text(String),
    /// Soft and hard limit.
    Rlimit(u64, u64),
}

impl Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Rlimit(soft, hard) => write!(f, "{soft}:{hard}"),
        }
    }
}

/// What a field without a value is equal to, for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Absent {
    /// There is no limit, as with a number below zero.
    Unlimited,
    /// The kernel's default.
    Is(i64),
}

/// A field with one value.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldRow {
    /// Name in files and messages.
    pub name: &'static str,
    /// Unit; `None` for a text.
    pub unit: Option<Unit>,
    /// Meaning of no value.
    pub absent: Absent,
}

/// Returns a row of [`FIELDS`].
const fn row(name: &'static str, unit: Option<Unit>, absent: Absent) -> FieldRow {
    FieldRow { name, unit, absent }
}

/// All fields with one value. `cpus` is no row: it is another way to write `cpu.quota`.
pub(crate) static FIELDS: [FieldRow; 13] = [
    row("memory.limit", Some(Unit::Bytes), Absent::Unlimited),
    row("memory.reservation", Some(Unit::Bytes), Absent::Unlimited),
    row("memory.swap", Some(Unit::Bytes), Absent::Unlimited),
    row("memory.swappiness", Some(Unit::Plain), Absent::Unlimited),
    row("cpu.shares", Some(Unit::Plain), Absent::Is(1024)),
    row("cpu.quota", Some(Unit::Microseconds), Absent::Unlimited),
    row("cpu.period", Some(Unit::Microseconds), Absent::Is(DEFAULT_PERIOD)),
    row("cpu.cpus", None, Absent::Unlimited),
    row("cpu.mems", None, Absent::Unlimited),
    row("pids.limit", Some(Unit::Plain), Absent::Unlimited),
    row("oom_score_adj", Some(Unit::Plain), Absent::Is(0)),
    row("blockio_class", None, Absent::Unlimited),
    row("rdt_class", None, Absent::Unlimited),
];

/// The key of a field with one value, such as [`QUOTA`].
///
/// # Panics
/// There is no such field.
const fn key_of(index: usize) -> Key {
    Key::Field(&FIELDS[index])
}

/// The limit of memory.
pub(crate) const MEMORY: Key = key_of(0);
/// The soft limit of memory.
pub(crate) const RESERVATION: Key = key_of(1);
/// The limit of memory and swap together.
pub(crate) const SWAP: Key = key_of(2);
/// The quota, which `cpus` sets.
pub(crate) const QUOTA: Key = key_of(5);
/// The period of the quota.
pub(crate) const PERIOD: Key = key_of(6);

/// Returns the key of the field with this name.
pub(crate) fn field(name: &str) -> Option<Key> {
    FIELDS.iter().find(|row| row.name == name).map(Key::Field)
}

/// Returns the value that a container has, after earlier plugins.
pub(crate) fn value(key: &Key, container: &Container) -> Option<FieldValue> {
    let linux = &container.linux;
    match key {
        Key::Field(row) if row.name == "oom_score_adj" => {
            linux.oom_score_adj.as_ref().map(|score| FieldValue::Number(score.value))
        }
        Key::Field(_) | Key::Entry(Group::Hugepages | Group::Unified, _) => {
            resource_value(key, &linux.resources)
        }
        Key::Entry(group, key) => entry(*group, key, container),
    }
}

/// Returns the value that resources have for a field, or for an entry of theirs.
pub(crate) fn resource_value(key: &Key, resources: &LinuxResources) -> Option<FieldValue> {
    match key {
        Key::Field(row) => resource(row.name, resources),
        Key::Entry(Group::Hugepages, size) => {
            let limit = resources.hugepage_limits.iter().find(|l| l.page_size == *size)?;
            Some(FieldValue::Number(i64::try_from(limit.limit).unwrap_or(i64::MAX)))
        }
        Key::Entry(Group::Unified, file) => {
            resources.unified.get(file).cloned().map(FieldValue::Text)
        }
        Key::Entry(..) => None,
    }
}

/// Sets the value of a resource in a message; other fields are not set.
pub(crate) fn set_value(resources: &mut LinuxResources, key: &Key, value: &FieldValue) {
    let row = match key {
        Key::Field(row) => RESOURCE_FIELDS.iter().find(|field| field.name == row.name),
        Key::Entry(..) => None,
    };
    match (key, row.map(|field| &field.access), value) {
        (_, Some(Access::Int64(a)), FieldValue::Number(n)) => (a.set)(resources, *n),
        (_, Some(Access::UInt64(a)), FieldValue::Number(n)) => {
            (a.set)(resources, u64::try_from(*n).unwrap_or_default());
        }
        (_, Some(Access::Text(a)), FieldValue::Text(text)) => (a.set)(resources, text.clone()),
        (Key::Entry(Group::Hugepages, size), _, FieldValue::Number(n)) => {
            resources.hugepage_limits.retain(|other| other.page_size != *size);
            resources.hugepage_limits.push(HugepageLimit {
                page_size: size.clone(),
                limit: u64::try_from(*n).unwrap_or_default(),
                ..Default::default()
            });
        }
        (Key::Entry(Group::Unified, file), _, FieldValue::Text(text)) => {
            resources.unified.insert(file.clone(), text.clone());
        }
        _ => {}
    }
}

/// Returns the value of a resource.
pub(crate) fn resource(name: &str, resources: &LinuxResources) -> Option<FieldValue> {
    let field = RESOURCE_FIELDS.iter().find(|field| field.name == name)?;
    match &field.access {
        Access::Int64(a) => (a.get)(resources).map(FieldValue::Number),
        Access::UInt64(a) => {
            (a.get)(resources).map(|n| FieldValue::Number(i64::try_from(n).unwrap_or(i64::MAX)))
        }
        Access::Text(a) => (a.get)(resources).map(FieldValue::Text),
        Access::Bool(_) | Access::Entries(_) | Access::OciOnly => None,
    }
}

fn entry(group: Group, key: &str, container: &Container) -> Option<FieldValue> {
    let linux = &container.linux;
    let text = |text: &String| FieldValue::Text(text.clone());
    match group {
        Group::Hugepages | Group::Unified => None, // see `resource_value`
        Group::Env => {
            let (_, value) = environment(&container.env).rfind(|(name, _)| *name == key)?;
            Some(FieldValue::Text(value.to_owned()))
        }
        Group::Rlimits => {
            // Runtimes set limits of one type one after the other.
            let limit = container.rlimits.iter().rfind(|limit| limit.type_ == key)?;
            Some(FieldValue::Rlimit(limit.soft, limit.hard))
        }
        Group::Sysctl => linux.sysctl.get(key).map(text),
        Group::Annotations => container.annotations.get(key).map(text),
        Group::Mounts => {
            let mount = container.mounts.iter().rfind(|mount| mount.destination == key)?;
            Some(text(&mount.source))
        }
        Group::Devices => {
            let device = linux.devices.iter().find(|device| device.path == key)?;
            Some(FieldValue::Text(format!("{}:{}", device.major, device.minor)))
        }
        Group::Cdi => {
            let device = container.CDI_devices.iter().find(|device| device.name == key)?;
            Some(text(&device.name))
        }
    }
}

/// Returns the names and values of the environment in their order. Of several values of a name, the
/// last one counts.
pub(crate) fn environment(env: &[String]) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    env.iter().filter_map(|entry| entry.split_once('='))
}

/// Sets a resource of an adjustment or an update. Returns whether the field is a resource.
pub(crate) fn set_resource<R: SetResources>(target: &mut R, key: &Key, value: &FieldValue) -> bool {
    let (number, text) = match value {
        FieldValue::Number(number) => (*number, String::new()),
        FieldValue::Text(text) => (0, text.clone()),
        FieldValue::Rlimit(..) => return false,
    };
    // Below zero is a mistake that the file's reader refuses where the protocol has no sign.
    let unsigned = u64::try_from(number).unwrap_or_default();
    match key {
        Key::Field(row) => match row.name {
            "memory.limit" => _ = target.set_memory_limit(number),
            "memory.reservation" => _ = target.set_memory_reservation(number),
            "memory.swap" => _ = target.set_memory_swap(number),
            "memory.swappiness" => _ = target.set_memory_swappiness(unsigned),
            "cpu.shares" => _ = target.set_cpu_shares(unsigned),
            "cpu.quota" => _ = target.set_cpu_quota(number),
            "cpu.period" => _ = target.set_cpu_period(unsigned),
            "cpu.cpus" => _ = target.set_cpu_cpus(text),
            "cpu.mems" => _ = target.set_cpu_mems(text),
            "pids.limit" => _ = target.set_pids_limit(number),
            "blockio_class" => _ = target.set_blockio_class(text),
            "rdt_class" => _ = target.set_rdt_class(text),
            _ => return false,
        },
        Key::Entry(Group::Hugepages, size) => _ = target.add_hugepage_limit(size, unsigned),
        Key::Entry(Group::Unified, file) => _ = target.add_unified(file, text),
        Key::Entry(..) => return false,
    }
    true
}
