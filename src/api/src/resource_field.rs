//! The table of resource fields: name, owner, path in `linux.resources`, way to update the field of
//! a running container, and cgroup files.
//!
//! `nri-merge`, `nri-spec` and `nri-cgroup` take these facts only from
//! [`RESOURCE_FIELDS`]. The table does not convert values. Start from [`resource_field`] for one
//! field and [`fields_of`] for the fields of one controller.

use crate::field_row::{FieldRow, Form};
use crate::optional::opt;
use crate::proto::{Field, LinuxResources};

/// A resource field of the protocol, or a field that only the OCI config has.
#[derive(Debug)]
pub struct ResourceField {
    /// Name in messages: the keys of `path`, joined by dots, with few exceptions. An entry of
    /// `hugepageLimits` or `unified` has the name that [`entry_name`](crate::entry_name) returns.
    pub name: &'static str,
    /// Path in `linux.resources` of the OCI config; empty for the RDT class, which is in
    /// `linux.intelRdt`.
    pub path: &'static [&'static str],
    /// Field of the protocol under which its owner is recorded; `None` for device rules, which
    /// have no owner, and for fields of the OCI config that plugins cannot set.
    pub owner: Option<Field>,
    /// Path in `ContainerAdjustment`, in the protocol's names; empty if the protocol does not have
    /// the field.
    pub message: &'static str,
    /// Way to change the field of a running container.
    pub update: Update,
    /// Files of cgroup v1; `{}` stands for the key of an entry. Several files are alternatives,
    /// the preferred one first, unless a comment in the table says otherwise.
    pub v1: &'static [&'static str],
    /// Files of cgroup v2, in the same form as `v1`.
    pub v2: &'static [&'static str],
    /// Access to the field in a [`LinuxResources`] message.
    pub access: Access,
}

/// Way to change a resource field of a running container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// By the runtime's `update`.
    Runtime,
    /// By writing the cgroup file, since no runtime's `update` sets the field.
    File,
    /// Not at all: the field cannot be changed while the container runs.
    Never,
}

/// Reads and writes one value of a [`LinuxResources`] message.
#[derive(Debug)]
pub struct Accessor<T> {
    /// Returns the value, if the message has one.
    pub get: fn(&LinuxResources) -> Option<T>,
    /// Sets the value.
    pub set: fn(&mut LinuxResources, T),
}

/// The type of a field in the protocol, and the access to it.
#[derive(Debug)]
pub enum Access {
    /// A signed number.
    Int64(Accessor<i64>),
    /// An unsigned number.
    UInt64(Accessor<u64>),
    /// A flag.
    Bool(Accessor<bool>),
    /// A text.
    Text(Accessor<String>),
    /// A list or a map; the function returns whether it has entries.
    Entries(fn(&LinuxResources) -> bool),
    /// The protocol does not have the field.
    OciOnly,
}

/// Words of errors about resctrl.
pub(crate) const RESCTRL: [&str; 3] = ["resctrl", "intelrdt", "closid"];

impl ResourceField {
    /// Returns the last key of the path.
    pub const fn key(&self) -> &'static str {
        match self.path.last() {
            Some(key) => key,
            None => "",
        }
    }

    /// Returns what this field has in common with those that are no resources.
    pub fn row(&self) -> FieldRow {
        let (group, form, words): (_, _, &[&str]) = match self.path {
            ["memory", "limit" | "swap"] => ("resources.memory", Form::Value, &["memory limit"]),
            ["memory", ..] => ("resources.memory", Form::Value, &[]),
            // runc, for a controller that the container's cgroup does not have.
            ["cpu", "cpus" | "mems"] => ("resources.cpu", Form::Value, &["set cpuset limit"]),
            ["cpu", ..] => ("resources.cpu", Form::Value, &["set cpu limit"]),
            ["pids", ..] => ("resources.pids", Form::Value, &["set pids limit"]),
            ["hugepageLimits"] => {
                ("resources.hugepages", Form::List("pageSize"), &["set hugetlb limit"])
            }
            ["blockIO"] => ("resources.blockio_class", Form::Parts, &["set blkio limit"]),
            ["blockIO", ..] => ("resources.blockio_class", Form::Value, &["set blkio limit"]),
            ["devices"] => ("resources.devices", Form::Appended, &[]),
            ["unified"] => ("resources.unified", Form::Map, &[]),
            [] => ("resources.rdt_class", Form::Value, &RESCTRL),
            _ => ("", Form::Value, &[]),
        };
        let Self { name, owner, message, path, .. } = *self;
        FieldRow { name, owner, message, group, path, form, words, errors_name_key: false }
    }

    /// Whether `resources` sets the field.
    pub fn is_set(&self, resources: &LinuxResources) -> bool {
        match &self.access {
            Access::Int64(a) => (a.get)(resources).is_some(),
            Access::UInt64(a) => (a.get)(resources).is_some(),
            Access::Bool(a) => (a.get)(resources).is_some(),
            Access::Text(a) => (a.get)(resources).is_some(),
            Access::Entries(has_entries) => has_entries(resources),
            Access::OciOnly => false,
        }
    }

    /// Copies a single value, if `from` sets it; lists and maps are not copied.
    pub fn copy(&self, from: &LinuxResources, to: &mut LinuxResources) {
        fn copy<T>(a: &Accessor<T>, from: &LinuxResources, to: &mut LinuxResources) {
            if let Some(value) = (a.get)(from) {
                (a.set)(to, value);
            }
        }
        match &self.access {
            Access::Int64(a) => copy(a, from, to),
            Access::UInt64(a) => copy(a, from, to),
            Access::Bool(a) => copy(a, from, to),
            Access::Text(a) => copy(a, from, to),
            Access::Entries(_) | Access::OciOnly => {}
        }
    }
}

/// Returns the field of this name. Use it in constants only, where an unknown name fails the build.
///
/// # Panics
/// The table has no such field.
#[allow(clippy::panic)] // while a constant is evaluated
pub const fn resource_field(name: &str) -> &'static ResourceField {
    let mut i = 0;
    while i < RESOURCE_FIELDS.len() {
        if is_equal(RESOURCE_FIELDS[i].name.as_bytes(), name.as_bytes()) {
            return &RESOURCE_FIELDS[i];
        }
        i += 1;
    }
    panic!("no such resource field")
}

/// Returns the fields whose path is `group` and one key, in the order of the table.
pub fn fields_of(group: &str) -> impl Iterator<Item = &'static ResourceField> {
    RESOURCE_FIELDS.iter().filter(move |field| matches!(field.path, [first, _] if *first == group))
}

/// Returns the fields that a file of cgroup v2 holds, each with the key of its entry, which is
/// empty for a field with one value. `unified`, which names any file, is none of them.
pub fn fields_of_file(file: &str) -> impl Iterator<Item = (&'static ResourceField, &str)> {
    let key_of = move |name: &str| match name.split_once("{}") {
        Some((before, after)) => {
            let key = file.strip_prefix(before)?.strip_suffix(after)?;
            (!key.is_empty() && !key.contains('.')).then_some(key)
        }
        None => (name == file).then_some(""),
    };
    let fields = RESOURCE_FIELDS.iter().filter(|field| field.v2 != ["{}"]);
    fields.filter_map(move |field| Some((field, field.v2.iter().find_map(|name| key_of(name))?)))
}

/// The file of cgroup v2 that makes a cgroup a partition, which takes the CPUs of its cpuset from
/// all others, whatever these have.
pub const PARTITION: &str = "cpuset.cpus.partition";

/// The content of [`PARTITION`] for a usual cgroup.
pub const NO_PARTITION: &str = "member";

/// The files of cgroup v2 that say which CPUs a cgroup takes from all others.
pub const PARTITION_FILES: [&str; 2] = [PARTITION, "cpuset.cpus.exclusive"];

/// Returns the fields that an entry of `unified` undoes, if it is in none of their files: where a
/// plugin sets CPUs of containers, they cannot take CPUs from one another by themselves.
pub fn undone_by(file: &str) -> &'static [Field] {
    const CPUSET: [Field; 2] = [Field::CPUSetCPUs, Field::CPUSetMems];
    if PARTITION_FILES.contains(&file) { &CPUSET } else { &[] }
}

/// Whether `owner` belongs to a resource field, and not to another part of the container.
pub fn is_resource(owner: Field) -> bool {
    RESOURCE_FIELDS.iter().any(|field| field.owner == Some(owner))
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([x, a @ ..], [y, b @ ..]) => *x == *y && is_equal(a, b),
        _ => false,
    }
}

macro_rules! row {
    ($group:literal $(. $key:literal)?, $owner:expr, $update:ident, $v1:expr, $v2:expr,
     $kind:ident $(($($message:ident).+))?) => {
        ResourceField {
            name: concat!($group $(, ".", $key)?),
            path: &[$group $(, $key)?],
            owner: $owner,
            message: message!($($($message).+)?),
            update: Update::$update,
            v1: &$v1,
            v2: &$v2,
            access: access!($kind $(($($message).+))?),
        }
    };
}

/// Path of a field of [`LinuxResources`] in an adjustment.
macro_rules! message {
    () => { "" };
    ($($message:ident).+) => { concat!("linux.resources", $(".", stringify!($message)),+) };
}

/// Access to a field of [`LinuxResources`], by its type.
macro_rules! access {
    (OciOnly) => {
        Access::OciOnly
    };
    (Entries($field:ident)) => {
        Access::Entries(|r| !r.$field.is_empty())
    };
    // An empty text means that the field is not set.
    (Text($group:ident.$field:ident)) => {
        Access::Text(Accessor {
            get: |r| Some(&r.$group.$field).filter(|text| !text.is_empty()).cloned(),
            set: |r, v| r.$group.mut_or_insert_default().$field = v,
        })
    };
    // The name of a class. An empty name is a value, and does not mean "not set".
    (Text($field:ident)) => {
        Access::Text(Accessor {
            get: |r| r.$field.as_ref().map(|class| class.value.clone()),
            set: |r, v| r.$field = opt(Some(v)),
        })
    };
    // A message that holds the value alone.
    (Int64($field:ident)) => {
        Access::Int64(Accessor {
            get: |r| r.$field.as_ref().map(|message| message.limit),
            set: |r, v| r.$field.mut_or_insert_default().limit = v,
        })
    };
    // A field of an `Optional…` type.
    ($kind:ident($group:ident.$field:ident)) => {
        Access::$kind(Accessor {
            get: |r| r.$group.$field.as_ref().map(|v| v.value),
            set: |r, v| r.$group.mut_or_insert_default().$field = opt(Some(v)),
        })
    };
}

const BLOCKIO: Option<Field> = Some(Field::BlockioClass);

/// All resource fields, in the order of the protocol. New keys are added to an OCI config in this
/// order.
#[rustfmt::skip] // a row is one or two lines
pub const RESOURCE_FIELDS: &[ResourceField] = &[
    row!("memory"."limit", Some(Field::MemLimit), Runtime,
        ["memory.limit_in_bytes"], ["memory.max"], Int64(memory.limit)),
    row!("memory"."reservation", Some(Field::MemReservation), Runtime,
        ["memory.soft_limit_in_bytes"], ["memory.low"], Int64(memory.reservation)),
    // memory.swap.max limits swap alone, and not memory and swap together.
    row!("memory"."swap", Some(Field::MemSwapLimit), Runtime,
        ["memory.memsw.limit_in_bytes"], ["memory.swap.max"], Int64(memory.swap)),
    // Kernels since 5.16 ignore the limit of kernel memory.
    row!("memory"."kernel", Some(Field::MemKernelLimit), Never,
        [], [], Int64(memory.kernel)),
    row!("memory"."kernelTCP", Some(Field::MemTCPLimit), File,
        ["memory.kmem.tcp.limit_in_bytes"], [], Int64(memory.kernel_tcp)),
    row!("memory"."swappiness", Some(Field::MemSwappiness), File,
        ["memory.swappiness"], [], UInt64(memory.swappiness)),
    row!("memory"."disableOOMKiller", Some(Field::MemDisableOomKiller), File,
        ["memory.oom_control"], [], Bool(memory.disable_oom_killer)),
    // The kernel refuses a change if the cgroup has children.
    row!("memory"."useHierarchy", Some(Field::MemUseHierarchy), Never,
        ["memory.use_hierarchy"], [], Bool(memory.use_hierarchy)),
    // A flag for one `update`: no file holds it.
    row!("memory"."checkBeforeUpdate", None, Never, [], [], OciOnly),
    row!("cpu"."shares", Some(Field::CPUShares), Runtime,
        ["cpu.shares"], ["cpu.weight"], UInt64(cpu.shares)),
    row!("cpu"."quota", Some(Field::CPUQuota), Runtime,
        ["cpu.cfs_quota_us"], ["cpu.max"], Int64(cpu.quota)),
    row!("cpu"."period", Some(Field::CPUPeriod), Runtime,
        ["cpu.cfs_period_us"], ["cpu.max"], UInt64(cpu.period)),
    row!("cpu"."burst", None, Runtime, ["cpu.cfs_burst_us"], ["cpu.max.burst"], OciOnly),
    row!("cpu"."idle", None, Runtime, ["cpu.idle"], ["cpu.idle"], OciOnly),
    row!("cpu"."realtimeRuntime", Some(Field::CPURealtimeRuntime), Runtime,
        ["cpu.rt_runtime_us"], [], Int64(cpu.realtime_runtime)),
    row!("cpu"."realtimePeriod", Some(Field::CPURealtimePeriod), Runtime,
        ["cpu.rt_period_us"], [], UInt64(cpu.realtime_period)),
    row!("cpu"."cpus", Some(Field::CPUSetCPUs), Runtime,
        ["cpuset.cpus"], ["cpuset.cpus"], Text(cpu.cpus)),
    row!("cpu"."mems", Some(Field::CPUSetMems), Runtime,
        ["cpuset.mems"], ["cpuset.mems"], Text(cpu.mems)),
    row!("pids"."limit", Some(Field::PidsLimit), Runtime, ["pids.max"], ["pids.max"],
        Int64(pids)),
    // Not alternatives: both files are written. Kernels before 5.7 lack the second file.
    row!("hugepageLimits", Some(Field::HugepageLimits), File,
        ["hugetlb.{}.limit_in_bytes", "hugetlb.{}.rsvd.limit_in_bytes"],
        ["hugetlb.{}.max", "hugetlb.{}.rsvd.max"],
        Entries(hugepage_limits)),
    // A block I/O class sets the fields that follow.
    ResourceField {
        name: "blockio_class", path: &["blockIO"], owner: BLOCKIO,
        message: message!(blockio_class), update: Update::File,
        v1: &[], v2: &[], access: access!(Text(blockio_class)),
    },
    // The I/O scheduler BFQ has files of its own.
    row!("blockIO"."weight", BLOCKIO, Runtime, ["blkio.bfq.weight", "blkio.weight"],
        ["io.bfq.weight", "io.weight"], OciOnly),
    row!("blockIO"."leafWeight", BLOCKIO, File, ["blkio.leaf_weight"], [], OciOnly),
    row!("blockIO"."weightDevice", BLOCKIO, File,
        ["blkio.bfq.weight_device", "blkio.weight_device"], ["io.bfq.weight", "io.weight"],
        OciOnly),
    row!("blockIO"."throttleReadBpsDevice", BLOCKIO, File,
        ["blkio.throttle.read_bps_device"], ["io.max"], OciOnly),
    row!("blockIO"."throttleWriteBpsDevice", BLOCKIO, File,
        ["blkio.throttle.write_bps_device"], ["io.max"], OciOnly),
    row!("blockIO"."throttleReadIOPSDevice", BLOCKIO, File,
        ["blkio.throttle.read_iops_device"], ["io.max"], OciOnly),
    row!("blockIO"."throttleWriteIOPSDevice", BLOCKIO, File,
        ["blkio.throttle.write_iops_device"], ["io.max"], OciOnly),
    // A rule cannot be changed on its own: the rules of the engine and of all plugins are one
    // ordered list, which in cgroup v2 is an eBPF program that the runtime loads.
    // `devices` is the name of the device nodes.
    ResourceField {
        name: "resources.devices", path: &["devices"], owner: None,
        message: message!(devices), update: Update::Never,
        v1: &["devices.list"], v2: &[], access: access!(Entries(devices)),
    },
    row!("unified", Some(Field::CgroupsUnified), Runtime, [], ["{}"],
        Entries(unified)),
    // In `linux.intelRdt`. A container changes its class when its thread ids are written to the
    // file `tasks` of the class in resctrl.
    ResourceField {
        name: "rdt_class", path: &[], owner: Some(Field::RdtClass),
        message: message!(rdt_class), update: Update::File,
        v1: &[], v2: &[], access: access!(Text(rdt_class)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_cgroup_v2_has_its_fields() {
        for (file, expected) in [
            ("memory.max", vec![("memory.limit", "")]),
            ("cpu.max", vec![("cpu.quota", ""), ("cpu.period", "")]),
            ("hugetlb.2MB.max", vec![("hugepageLimits", "2MB")]),
            ("hugetlb.2MB.rsvd.max", vec![("hugepageLimits", "2MB")]),
            ("hugetlb..max", vec![]),
            ("memory.high", vec![]),
            ("memory.limit_in_bytes", vec![]),
        ] {
            let found: Vec<_> = fields_of_file(file).map(|(f, key)| (f.name, key)).collect();
            assert_eq!(found, expected, "{file}");
        }
    }
}
