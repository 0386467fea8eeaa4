//! The table of all adjustable fields: who owns them, the file that handles them in the merge and
//! in the OCI config, where they land, and the cases that use them. Only data: `main.rs` says what
//! has to be true of a row.

use nri_api::proto::Field;

/// One field of `ContainerAdjustment` that can be set on its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Where it is in the message, in the protocol's own names.
    pub(crate) path: &'static str,
    /// What setting it claims.
    pub(crate) claim: Claim,
    /// The file that handles it: `src/merge/src/FILE.rs` and, as their names mirror each other,
    /// `src/spec/src/FILE.rs`.
    pub(crate) file: &'static str,
    /// How its entries are told apart.
    pub(crate) key: Key,
    /// What of the OCI config it may change, as JSON pointers in which `*` is a key of the
    /// adjustment and `+` an entry that is new.
    pub(crate) places: &'static [&'static str],
    /// Cases: `fields/NAME` is of `tests/cases`, all others are of `src/spec/tests/cases`.
    pub(crate) cases: &'static [&'static str],
}

/// What an adjustment of one field claims.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    Of(Field),
    /// Contributions that nobody owns.
    Nobody,
    /// All of these are given up.
    Clears(&'static [Field]),
}
use Claim::{Clears, Nobody, Of};

/// How the entries of a field are told apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// It has none, or is set as a whole.
    Whole,
    /// By the keys of a map; `-KEY` removes.
    Map,
    /// By the keys of a map; there is no removal.
    Names,
    /// By this field of an entry, in protojson's spelling; `-KEY` removes.
    By(&'static str),
    /// By this field of an entry; there is no removal.
    Named(&'static str),
}
use Key::{By, Map, Named, Names, Whole};

/// What CDI devices may bring.
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

/// In the order of the protocol.
#[rustfmt::skip] // a row is a line
pub(crate) const ROWS: &[Row] = &[
    Row { path: "annotations", claim: Of(Field::Annotations), file: "annotations", key: Map, places: &["/annotations/*"], cases: &["annotations/set-and-remove"] },
    Row { path: "mounts", claim: Of(Field::Mounts), file: "mounts", key: By("destination"), places: &["/mounts/*", "/linux/rootfsPropagation"], cases: &["mounts/replace-and-sort"] },
    Row { path: "env", claim: Of(Field::Env), file: "env", key: By("key"), places: &["/process/env/*"], cases: &["env/replace-append-remove"] },
    Row { path: "hooks.prestart", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/prestart/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "hooks.create_runtime", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/createRuntime/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "hooks.create_container", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/createContainer/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "hooks.start_container", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/startContainer/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "hooks.poststart", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/poststart/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "hooks.poststop", claim: Of(Field::OciHooks), file: "hooks", key: Whole, places: &["/hooks/poststop/+"], cases: &["hooks/append", "fields/hooks"] },
    Row { path: "linux.devices", claim: Of(Field::Devices), file: "devices", key: By("path"), places: &["/linux/devices/*", "/linux/resources/devices/+"], cases: &["devices/add-and-replace"] },
    Row { path: "linux.resources.memory.limit", claim: Of(Field::MemLimit), file: "memory", key: Whole, places: &["/linux/resources/memory/limit", "/linux/resources/memory/swap"], cases: &["memory/all", "memory/limit-brings-swap"] },
    Row { path: "linux.resources.memory.reservation", claim: Of(Field::MemReservation), file: "memory", key: Whole, places: &["/linux/resources/memory/reservation"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.swap", claim: Of(Field::MemSwapLimit), file: "memory", key: Whole, places: &["/linux/resources/memory/swap"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.kernel", claim: Of(Field::MemKernelLimit), file: "memory", key: Whole, places: &["/linux/resources/memory/kernel"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.kernel_tcp", claim: Of(Field::MemTCPLimit), file: "memory", key: Whole, places: &["/linux/resources/memory/kernelTCP"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.swappiness", claim: Of(Field::MemSwappiness), file: "memory", key: Whole, places: &["/linux/resources/memory/swappiness"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.disable_oom_killer", claim: Of(Field::MemDisableOomKiller), file: "memory", key: Whole, places: &["/linux/resources/memory/disableOOMKiller"], cases: &["memory/all"] },
    Row { path: "linux.resources.memory.use_hierarchy", claim: Of(Field::MemUseHierarchy), file: "memory", key: Whole, places: &["/linux/resources/memory/useHierarchy"], cases: &["memory/all"] },
    Row { path: "linux.resources.cpu.shares", claim: Of(Field::CPUShares), file: "cpu", key: Whole, places: &["/linux/resources/cpu/shares"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.quota", claim: Of(Field::CPUQuota), file: "cpu", key: Whole, places: &["/linux/resources/cpu/quota"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.period", claim: Of(Field::CPUPeriod), file: "cpu", key: Whole, places: &["/linux/resources/cpu/period"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.realtime_runtime", claim: Of(Field::CPURealtimeRuntime), file: "cpu", key: Whole, places: &["/linux/resources/cpu/realtimeRuntime"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.realtime_period", claim: Of(Field::CPURealtimePeriod), file: "cpu", key: Whole, places: &["/linux/resources/cpu/realtimePeriod"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.cpus", claim: Of(Field::CPUSetCPUs), file: "cpu", key: Whole, places: &["/linux/resources/cpu/cpus"], cases: &["cpu/all"] },
    Row { path: "linux.resources.cpu.mems", claim: Of(Field::CPUSetMems), file: "cpu", key: Whole, places: &["/linux/resources/cpu/mems"], cases: &["cpu/all"] },
    Row { path: "linux.resources.hugepage_limits", claim: Of(Field::HugepageLimits), file: "hugepages", key: Named("pageSize"), places: &["/linux/resources/hugepageLimits/*"], cases: &["hugepages/by-page-size"] },
    Row { path: "linux.resources.blockio_class", claim: Of(Field::BlockioClass), file: "blockio", key: Whole, places: &["/linux/resources/blockIO"], cases: &["blockio/class", "blockio/clear"] },
    Row { path: "linux.resources.rdt_class", claim: Of(Field::RdtClass), file: "rdt_class", key: Whole, places: &["/linux/intelRdt"], cases: &["rdt/class", "rdt/class-clear"] },
    Row { path: "linux.resources.unified", claim: Of(Field::CgroupsUnified), file: "unified", key: Names, places: &["/linux/resources/unified/*"], cases: &["unified/set"] },
    Row { path: "linux.resources.devices", claim: Nobody, file: "device_rules", key: Whole, places: &["/linux/resources/devices/+"], cases: &["devices/rules"] },
    Row { path: "linux.resources.pids", claim: Of(Field::PidsLimit), file: "pids", key: Whole, places: &["/linux/resources/pids/limit"], cases: &["pids/limit"] },
    Row { path: "linux.cgroups_path", claim: Of(Field::CgroupsPath), file: "cgroups_path", key: Whole, places: &["/linux/cgroupsPath"], cases: &["cgroups_path/set"] },
    Row { path: "linux.oom_score_adj", claim: Of(Field::OomScoreAdj), file: "oom_score_adj", key: Whole, places: &["/process/oomScoreAdj"], cases: &["oom_score_adj/set"] },
    Row { path: "linux.io_priority", claim: Of(Field::IoPriority), file: "io_priority", key: Whole, places: &["/process/ioPriority"], cases: &["io_priority/set"] },
    Row { path: "linux.seccomp_policy", claim: Of(Field::SeccompPolicy), file: "seccomp", key: Whole, places: &["/linux/seccomp"], cases: &["seccomp/replace"] },
    Row { path: "linux.namespaces", claim: Of(Field::Namespace), file: "namespaces", key: By("type"), places: &["/linux/namespaces/*"], cases: &["namespaces/replace-remove-append"] },
    Row { path: "linux.sysctl", claim: Of(Field::Sysctl), file: "sysctl", key: Map, places: &["/linux/sysctl/*"], cases: &["sysctl/set-and-remove"] },
    Row { path: "linux.net_devices", claim: Of(Field::LinuxNetDevices), file: "net_devices", key: Map, places: &["/linux/netDevices/*"], cases: &["net_devices/set-and-remove"] },
    Row { path: "linux.scheduler", claim: Of(Field::LinuxSched), file: "scheduler", key: Whole, places: &["/process/scheduler"], cases: &["scheduler/set", "fields/scheduler"] },
    Row { path: "linux.rdt.clos_id", claim: Of(Field::RdtClosID), file: "rdt", key: Whole, places: &["/linux/intelRdt/closID"], cases: &["rdt/explicit"] },
    Row { path: "linux.rdt.schemata", claim: Of(Field::RdtSchemata), file: "rdt", key: Whole, places: &["/linux/intelRdt/schemata"], cases: &["rdt/explicit"] },
    Row { path: "linux.rdt.enable_monitoring", claim: Of(Field::RdtEnableMonitoring), file: "rdt", key: Whole, places: &["/linux/intelRdt/enableMonitoring"], cases: &["rdt/explicit"] },
    Row { path: "linux.rdt.remove", claim: Clears(&[Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring]), file: "rdt", key: Whole, places: &["/linux/intelRdt"], cases: &["rdt/remove"] },
    Row { path: "linux.memory_policy", claim: Of(Field::MemoryPolicy), file: "memory_policy", key: Whole, places: &["/linux/memoryPolicy"], cases: &["memory_policy/set"] },
    Row { path: "rlimits", claim: Of(Field::Rlimits), file: "rlimits", key: Named("type"), places: &["/process/rlimits/*"], cases: &["rlimits/by-type"] },
    Row { path: "CDI_devices", claim: Of(Field::CdiDevices), file: "cdi", key: Named("name"), places: EDITS, cases: &["cdi/all-edits"] },
    Row { path: "args", claim: Of(Field::Args), file: "args", key: Whole, places: &["/process/args"], cases: &["args/replace"] },
];
