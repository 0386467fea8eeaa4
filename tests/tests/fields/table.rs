//! The table of all adjustable fields: how each is owned, the files of its handlers, the values of
//! the OCI config that it changes, and the cases that use it. This file has only data; `rules.rs`
//! checks it.

use nri_api::proto::Field;

/// One field of `ContainerAdjustment` that can be set on its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Path of the field in the message, in the protocol's names.
    pub(crate) path: &'static str,
    /// Effect of the field on ownership.
    pub(crate) claim: Claim,
    /// Name of the files that handle the field, which is the same in both crates:
    /// `src/merge/src/FILE.rs` and `src/spec/src/FILE.rs`.
    pub(crate) file: &'static str,
    /// Key that identifies the entries of the field.
    pub(crate) key: Key,
    /// JSON pointers to the values of the OCI config that the field may change. `*` stands for a
    /// key of the adjustment, `+` for a new entry of a list.
    pub(crate) pointers: &'static [&'static str],
    /// Cases that use the field: `fields/NAME` is in `tests/cases`, any other in
    /// `src/spec/tests/cases`.
    pub(crate) cases: &'static [&'static str],
}

/// Effect of an adjustment of one field on ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    /// The plugin becomes the owner of the field.
    Of(Field),
    /// The field has no owner; entries of all plugins are appended.
    Unowned,
    /// The owners of all these fields are removed.
    Clears(&'static [Field]),
}
use Claim::{Clears, Of, Unowned};

/// Key that identifies the entries of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// No key: the field has no entries, or is set as a whole.
    Whole,
    /// Key of a map; `-KEY` removes the entry.
    Map,
    /// Key of a map, without removal.
    Names,
    /// Value of the entry's field of this name, as protojson spells it; `-KEY` removes the entry.
    By(&'static str),
    /// Value of the entry's field of this name, without removal.
    Named(&'static str),
}
use Key::{By, Map, Named, Names, Whole};

/// Values of the OCI config that CDI devices may change.
const EDITS: &[&str] = &[
    "/process/env",
    "/process/user/additionalGids",
    "/mounts",
    "/hooks",
    "/linux/devices",
    "/linux/resources/devices/+",
    "/linux/netDevices",
    "/linux/intelRdt",
];

/// All rows, in the order of the protocol.
pub(crate) const ROWS: &[Row] = &[
    Row {
        path: "annotations",
        claim: Of(Field::Annotations),
        file: "annotations",
        key: Map,
        pointers: &["/annotations/*"],
        cases: &["annotations/set-and-remove"],
    },
    Row {
        path: "mounts",
        claim: Of(Field::Mounts),
        file: "mounts",
        key: By("destination"),
        pointers: &["/mounts/*", "/linux/rootfsPropagation"],
        cases: &["mounts/replace-and-sort"],
    },
    Row {
        path: "env",
        claim: Of(Field::Env),
        file: "env",
        key: By("key"),
        pointers: &["/process/env/*"],
        cases: &["env/replace-append-remove"],
    },
    Row {
        path: "hooks.prestart",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/prestart/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "hooks.create_runtime",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/createRuntime/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "hooks.create_container",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/createContainer/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "hooks.start_container",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/startContainer/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "hooks.poststart",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/poststart/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "hooks.poststop",
        claim: Of(Field::OciHooks),
        file: "hooks",
        key: Whole,
        pointers: &["/hooks/poststop/+"],
        cases: &["hooks/append", "fields/hooks"],
    },
    Row {
        path: "linux.devices",
        claim: Of(Field::Devices),
        file: "devices",
        key: By("path"),
        pointers: &["/linux/devices/*", "/linux/resources/devices/+"],
        cases: &["devices/add-and-replace"],
    },
    Row {
        path: "linux.resources.memory.limit",
        claim: Of(Field::MemLimit),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/limit", "/linux/resources/memory/swap"],
        cases: &["memory/all", "memory/limit-brings-swap"],
    },
    Row {
        path: "linux.resources.memory.reservation",
        claim: Of(Field::MemReservation),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/reservation"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.swap",
        claim: Of(Field::MemSwapLimit),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/swap"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.kernel",
        claim: Of(Field::MemKernelLimit),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/kernel"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.kernel_tcp",
        claim: Of(Field::MemTCPLimit),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/kernelTCP"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.swappiness",
        claim: Of(Field::MemSwappiness),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/swappiness"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.disable_oom_killer",
        claim: Of(Field::MemDisableOomKiller),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/disableOOMKiller"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.memory.use_hierarchy",
        claim: Of(Field::MemUseHierarchy),
        file: "memory",
        key: Whole,
        pointers: &["/linux/resources/memory/useHierarchy"],
        cases: &["memory/all"],
    },
    Row {
        path: "linux.resources.cpu.shares",
        claim: Of(Field::CPUShares),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/shares"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.quota",
        claim: Of(Field::CPUQuota),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/quota"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.period",
        claim: Of(Field::CPUPeriod),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/period"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.realtime_runtime",
        claim: Of(Field::CPURealtimeRuntime),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/realtimeRuntime"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.realtime_period",
        claim: Of(Field::CPURealtimePeriod),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/realtimePeriod"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.cpus",
        claim: Of(Field::CPUSetCPUs),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/cpus"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.cpu.mems",
        claim: Of(Field::CPUSetMems),
        file: "cpu",
        key: Whole,
        pointers: &["/linux/resources/cpu/mems"],
        cases: &["cpu/all"],
    },
    Row {
        path: "linux.resources.hugepage_limits",
        claim: Of(Field::HugepageLimits),
        file: "hugepages",
        key: Named("pageSize"),
        pointers: &["/linux/resources/hugepageLimits/*"],
        cases: &["hugepages/by-page-size"],
    },
    Row {
        path: "linux.resources.blockio_class",
        claim: Of(Field::BlockioClass),
        file: "blockio",
        key: Whole,
        pointers: &["/linux/resources/blockIO"],
        cases: &["blockio/class", "blockio/clear"],
    },
    Row {
        path: "linux.resources.rdt_class",
        claim: Of(Field::RdtClass),
        file: "rdt_class",
        key: Whole,
        pointers: &["/linux/intelRdt"],
        cases: &["rdt/class", "rdt/class-clear"],
    },
    Row {
        path: "linux.resources.unified",
        claim: Of(Field::CgroupsUnified),
        file: "unified",
        key: Names,
        pointers: &["/linux/resources/unified/*"],
        cases: &["unified/set"],
    },
    Row {
        path: "linux.resources.devices",
        claim: Unowned,
        file: "device_rules",
        key: Whole,
        pointers: &["/linux/resources/devices/+"],
        cases: &["devices/rules"],
    },
    Row {
        path: "linux.resources.pids",
        claim: Of(Field::PidsLimit),
        file: "pids",
        key: Whole,
        pointers: &["/linux/resources/pids/limit"],
        cases: &["pids/limit"],
    },
    Row {
        path: "linux.cgroups_path",
        claim: Of(Field::CgroupsPath),
        file: "cgroups_path",
        key: Whole,
        pointers: &["/linux/cgroupsPath"],
        cases: &["cgroups_path/set"],
    },
    Row {
        path: "linux.oom_score_adj",
        claim: Of(Field::OomScoreAdj),
        file: "oom_score_adj",
        key: Whole,
        pointers: &["/process/oomScoreAdj"],
        cases: &["oom_score_adj/set"],
    },
    Row {
        path: "linux.io_priority",
        claim: Of(Field::IoPriority),
        file: "io_priority",
        key: Whole,
        pointers: &["/process/ioPriority"],
        cases: &["io_priority/set"],
    },
    Row {
        path: "linux.seccomp_policy",
        claim: Of(Field::SeccompPolicy),
        file: "seccomp",
        key: Whole,
        pointers: &["/linux/seccomp"],
        cases: &["seccomp/replace"],
    },
    Row {
        path: "linux.namespaces",
        claim: Of(Field::Namespace),
        file: "namespaces",
        key: By("type"),
        pointers: &["/linux/namespaces/*"],
        cases: &["namespaces/replace-remove-append"],
    },
    Row {
        path: "linux.sysctl",
        claim: Of(Field::Sysctl),
        file: "sysctl",
        key: Map,
        pointers: &["/linux/sysctl/*"],
        cases: &["sysctl/set-and-remove"],
    },
    Row {
        path: "linux.net_devices",
        claim: Of(Field::LinuxNetDevices),
        file: "net_devices",
        key: Map,
        pointers: &["/linux/netDevices/*"],
        cases: &["net_devices/set-and-remove"],
    },
    Row {
        path: "linux.scheduler",
        claim: Of(Field::LinuxSched),
        file: "scheduler",
        key: Whole,
        pointers: &["/process/scheduler"],
        cases: &["scheduler/set", "fields/scheduler"],
    },
    Row {
        path: "linux.rdt.clos_id",
        claim: Of(Field::RdtClosID),
        file: "rdt",
        key: Whole,
        pointers: &["/linux/intelRdt/closID"],
        cases: &["rdt/explicit"],
    },
    Row {
        path: "linux.rdt.schemata",
        claim: Of(Field::RdtSchemata),
        file: "rdt",
        key: Whole,
        pointers: &["/linux/intelRdt/schemata"],
        cases: &["rdt/explicit"],
    },
    Row {
        path: "linux.rdt.enable_monitoring",
        claim: Of(Field::RdtEnableMonitoring),
        file: "rdt",
        key: Whole,
        pointers: &["/linux/intelRdt/enableMonitoring"],
        cases: &["rdt/explicit"],
    },
    Row {
        path: "linux.rdt.remove",
        claim: Clears(&[Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring]),
        file: "rdt",
        key: Whole,
        pointers: &["/linux/intelRdt"],
        cases: &["rdt/remove"],
    },
    Row {
        path: "linux.memory_policy",
        claim: Of(Field::MemoryPolicy),
        file: "memory_policy",
        key: Whole,
        pointers: &["/linux/memoryPolicy"],
        cases: &["memory_policy/set"],
    },
    Row {
        path: "rlimits",
        claim: Of(Field::Rlimits),
        file: "rlimits",
        key: Named("type"),
        pointers: &["/process/rlimits/*"],
        cases: &["rlimits/by-type"],
    },
    Row {
        path: "CDI_devices",
        claim: Of(Field::CdiDevices),
        file: "cdi",
        key: Named("name"),
        pointers: EDITS,
        cases: &["cdi/all-edits"],
    },
    Row {
        path: "args",
        claim: Of(Field::Args),
        file: "args",
        key: Whole,
        pointers: &["/process/args"],
        cases: &["args/replace"],
    },
];
