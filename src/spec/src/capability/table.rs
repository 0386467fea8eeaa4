//! Tables of features: which fields need them, and which runtimes support them.

use super::host::HostCapabilities;
use super::version::{RuntimeKind, RuntimeVersion, Version};
use crate::changes::ChangedField;
use crate::resources::idle;
use nri_api::{ResourceField, proto::Field, resource_field};
use serde_json::Value;
use std::fmt;

/// A feature of the OCI config that not every runtime supports on every host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // `features` has the fields of most, `requested.rs` of seccomp and mounts
pub enum Feature {
    Scheduler,
    IoPriority,
    MemoryPolicy,
    NetDevices,
    TimeNamespace,
    Rdt,
    RdtSchemata,
    RdtMonitoring,
    SeccompFlags,
    SeccompWaitKillable,
    SeccompListener,
    MountIdmap,
    MountIdmapRecursive,
    MountRecursiveAttributes,
    MountNoSymfollow,
    MountNoSymfollowRecursive,
    MountCopyUp,
    MountCopySymlink,
    MountNoFollow,
    Memory,
    KernelMemory,
    KernelTcpMemory,
    Swappiness,
    DisableOomKiller,
    UseHierarchy,
    FlatHierarchy,
    Cpu,
    Realtime,
    Cpuset,
    Pids,
    Hugepages,
    BlockIo,
    BlockIoWeight,
    BlockIoWeightDevice,
    CpuIdle,
    CpuIdleValue,
    Unified,
}

/// Reason why a runtime does not support a feature on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// No version of the runtime supports the feature.
    Never,
    /// The runtime is older than this version, the first that supports the feature.
    Since(Version),
    /// The feature needs the other version of cgroups.
    Cgroup {
        /// Whether containers are in cgroup v2.
        v2: bool,
    },
    /// The host lacks this controller.
    Controller(&'static str),
    /// The controller is not delegated to the user of a rootless engine.
    NotDelegated(&'static str),
    /// The host's cgroups have none of these files.
    Files(&'static [&'static str]),
    /// Resctrl is not mounted.
    Resctrl,
    /// Kernels since this version (major, minor) ignore the feature.
    Kernel(u32, u32),
    /// In cgroup v1, the field has these values only.
    Values(&'static str),
}

/// Control files that not every kernel has: the weights of block I/O, whose names depend on the I/O
/// scheduler, the period of realtime groups, the limits of swap, and `cpu.idle`.
#[rustfmt::skip]
pub const FILES: [&str; 8] = [
    WEIGHT.v1[0], WEIGHT.v1[1], REALTIME_PERIOD.v1[0], SWAP.v1[0], IDLE.v1[0],
    WEIGHT.v2[0], WEIGHT.v2[1], SWAP.v2[0],
];

const SWAP: &ResourceField = resource_field("memory.swap");
const WEIGHT: &ResourceField = resource_field("blockIO.weight");
const REALTIME_PERIOD: &ResourceField = resource_field("cpu.realtimePeriod");
const IDLE: &ResourceField = resource_field("cpu.idle");

/// Condition for a feature.
#[derive(Clone, Copy)]
enum Need {
    Never,
    Since(Version),
    V1,
    V2,
    Controller(&'static str),
    /// At least one of these files, if containers are in this version of cgroups (`true`: v2).
    Files(bool, &'static [&'static str]),
    Resctrl,
    KernelBefore(u32, u32),
    /// One of these values, if containers are in cgroup v1.
    ValuesV1(&'static str),
}

type Needs = &'static [Need];

use Need::{Controller, Files, KernelBefore, Never, Resctrl, Since, V1, V2, ValuesV1};

const fn since(major: u32, minor: u32, patch: u32) -> Need {
    Since(Version::new(major, minor, patch))
}

const fn candidate(major: u32, minor: u32, patch: u32, number: u32) -> Need {
    Since(Version::candidate(major, minor, patch, number))
}

const REALTIME: Need = Files(false, REALTIME_PERIOD.v1);
const IDLE_V1: Need = Files(false, IDLE.v1);
const FLAG_V1: Need = ValuesV1("0 or 1");
const WEIGHTS_V1: Need = Files(false, WEIGHT.v1);
const WEIGHTS_V2: Need = Files(true, WEIGHT.v2);
/// crun before 1.8.2 does not write the files of the BFQ scheduler.
const NO_BFQ_V1: Need = Files(false, &["blkio.weight"]);
/// runc and crun write the weight of a device only to this file; if it is missing, runc ignores the
/// weight.
const BFQ_V2: Need = Files(true, &["io.bfq.weight"]);

/// Each feature, with its conditions for runc, crun and youki. Tested: runc 1.1.5, 1.1.15, 1.3.6
/// and crun 1.8.1, 1.21, 1.28, under cgroup v1, hybrid and v2. Taken from the sources: which
/// version between the tested ones introduced a feature, all facts about newer versions and youki,
/// and RDT, which no test host had.
#[rustfmt::skip]
const ROWS: &[(Feature, Needs, Needs, Needs)] = &[
    // Older versions ignore these four fields.
    (Feature::Scheduler, &[candidate(1, 2, 0, 1)], &[since(1, 8, 5)], &[since(0, 3, 2)]),
    (Feature::IoPriority, &[candidate(1, 2, 0, 1)], &[since(1, 8, 6)], &[since(0, 2, 0)]),
    (Feature::MemoryPolicy, &[candidate(1, 4, 0, 2)], &[since(1, 24, 0)], &[since(0, 6, 0)]),
    (Feature::NetDevices, &[candidate(1, 4, 0, 1)], &[since(1, 22, 0)], &[since(0, 6, 0)]),
    // Older versions fail: runc reports an unknown namespace, crun a broken socket.
    (Feature::TimeNamespace, &[candidate(1, 2, 0, 1)], &[since(1, 8, 4)], &[since(0, 7, 0)]),
    // runc before 1.4 ignores a closID if resctrl is not mounted; crun before 1.10 ignores RDT.
    (Feature::Rdt, &[Resctrl], &[since(1, 10, 0), Resctrl], &[since(0, 1, 0), Resctrl]),
    (Feature::RdtSchemata, &[candidate(1, 4, 0, 2)], &[since(1, 22, 0)], &[since(0, 7, 0)]),
    (Feature::RdtMonitoring, &[candidate(1, 4, 0, 2)], &[since(1, 24, 0)], &[since(0, 7, 0)]),
    (Feature::SeccompFlags, &[candidate(1, 2, 0, 1)], &[], &[]),
    (Feature::SeccompWaitKillable, &[candidate(1, 5, 0, 2)], &[since(1, 6, 0)], &[since(0, 6, 0)]),
    (Feature::SeccompListener, &[candidate(1, 1, 0, 1)], &[since(0, 19, 0)], &[]),
    // Older runc ignores ID mappings, crun before 1.9 ignores recursive ID mappings, and older
    // youki refuses both.
    (Feature::MountIdmap, &[candidate(1, 2, 0, 1)], &[since(1, 4, 0)], &[since(0, 7, 0)]),
    (Feature::MountIdmapRecursive, &[candidate(1, 2, 0, 1)], &[since(1, 9, 0)], &[since(0, 7, 0)]),
    (Feature::MountRecursiveAttributes, &[candidate(1, 1, 0, 1)], &[since(1, 4, 0)], &[]),
    // crun ignores both options.
    (Feature::MountNoSymfollow, &[candidate(1, 1, 0, 1)], &[Never], &[Never]),
    (Feature::MountNoSymfollowRecursive, &[candidate(1, 1, 0, 1)], &[Never], &[]),
    (Feature::MountCopyUp, &[], &[], &[Never]),
    (Feature::MountCopySymlink, &[Never], &[since(1, 10, 0)], &[Never]),
    (Feature::MountNoFollow, &[Never], &[since(1, 22, 0)], &[Never]),
    (Feature::Memory, &[Controller("memory")], &[Controller("memory")], &[Controller("memory")]),
    // runc ignores the limit with a warning; crun and youki write it, and current kernels ignore
    // it.
    (Feature::KernelMemory, &[Never], &[V1, KernelBefore(5, 16)], &[V1, KernelBefore(5, 16)]),
    (Feature::KernelTcpMemory, &[Never], &[V1], &[V1]),
    // On cgroup v2 runc and youki ignore these two fields, crun refuses them.
    (Feature::Swappiness, &[V1], &[V1], &[V1]),
    (Feature::DisableOomKiller, &[V1], &[V1], &[V1]),
    // `true` is the default of all kernels; crun refuses the field on cgroup v2.
    (Feature::UseHierarchy, &[], &[V1], &[]),
    (Feature::FlatHierarchy, &[Never], &[Never], &[Never]),
    (Feature::Cpu, &[Controller("cpu")], &[Controller("cpu")], &[Controller("cpu")]),
    // On cgroup v2 runc ignores realtime limits, crun and youki refuse them.
    (Feature::Realtime, &[V1, REALTIME], &[V1, REALTIME], &[V1, REALTIME]),
    (Feature::Cpuset, &[Controller("cpuset")], &[Controller("cpuset")], &[Controller("cpuset")]),
    (Feature::Pids, &[Controller("pids")], &[Controller("pids")], &[Controller("pids")]),
    (Feature::Hugepages, &[Controller("hugetlb")], &[Controller("hugetlb")],
        &[Controller("hugetlb")]),
    (Feature::BlockIo, &[Controller("io")], &[Controller("io")], &[Controller("io")]),
    (Feature::BlockIoWeight, &[WEIGHTS_V1, WEIGHTS_V2], &[WEIGHTS_V1, WEIGHTS_V2], &[WEIGHTS_V1,
        WEIGHTS_V2]),
    (Feature::BlockIoWeightDevice, &[WEIGHTS_V1, BFQ_V2], &[WEIGHTS_V1, BFQ_V2], &[WEIGHTS_V1,
        BFQ_V2]),
    // `unified["cpu.idle"]`, which runtimes get as `cpu.idle` on cgroup v1. runc before 1.2 ignores
    // that, and enforcement writes the file, as all files that differ.
    (Feature::CpuIdle, &[IDLE_V1], &[IDLE_V1], &[IDLE_V1]),
    (Feature::CpuIdleValue, &[FLAG_V1], &[FLAG_V1], &[FLAG_V1]),
    // All runtimes refuse `unified` on cgroup v1.
    (Feature::Unified, &[V2], &[V2], &[V2]),
];

/// Returns the features that a field with this value needs; none if all runtimes support it, or
/// refuse its value with a clear message.
pub(super) fn features(field: Field, change: &ChangedField, value: &Value) -> &'static [Feature] {
    use Feature as F;
    match field {
        Field::None
        | Field::Annotations
        | Field::Args
        | Field::CdiDevices
        | Field::CgroupsPath
        | Field::Devices
        | Field::Env
        | Field::OciHooks
        | Field::OomScoreAdj
        | Field::Rlimits
        | Field::Sysctl => &[],
        // Their parts are the features.
        Field::Mounts | Field::SeccompPolicy => &[],
        Field::IoPriority => &[F::IoPriority],
        Field::LinuxNetDevices => &[F::NetDevices],
        Field::LinuxSched => &[F::Scheduler],
        Field::MemoryPolicy => &[F::MemoryPolicy],
        Field::Namespace if change.key.as_deref() == Some("time") => &[F::TimeNamespace],
        Field::Namespace => &[],
        // Schemata and monitoring also need what RDT itself needs.
        Field::RdtClosID | Field::RdtClass => &[F::Rdt],
        Field::RdtSchemata => &[F::RdtSchemata, F::Rdt],
        Field::RdtEnableMonitoring if *value == false => &[],
        Field::RdtEnableMonitoring => &[F::RdtMonitoring, F::Rdt],
        Field::MemLimit | Field::MemReservation | Field::MemSwapLimit => &[F::Memory],
        Field::MemKernelLimit => &[F::KernelMemory],
        Field::MemTCPLimit => &[F::KernelTcpMemory],
        Field::MemSwappiness => &[F::Swappiness],
        Field::MemDisableOomKiller if *value == true => &[F::DisableOomKiller],
        Field::MemDisableOomKiller => &[],
        Field::MemUseHierarchy if *value == true => &[F::UseHierarchy],
        Field::MemUseHierarchy => &[F::FlatHierarchy],
        Field::CPUShares
        | Field::CPUQuota
        | Field::CPUPeriod
        | Field::CPURealtimeRuntime
        | Field::CPURealtimePeriod
        | Field::CPUSetCPUs
        | Field::CPUSetMems
            if *value == 0 || *value == "" =>
        {
            &[] // not set
        }
        Field::CPUShares | Field::CPUQuota | Field::CPUPeriod => &[F::Cpu],
        Field::CPURealtimeRuntime | Field::CPURealtimePeriod => &[F::Realtime],
        Field::CPUSetCPUs | Field::CPUSetMems => &[F::Cpuset],
        Field::PidsLimit if value.as_i64().is_some_and(|limit| limit > 0) => &[F::Pids],
        Field::PidsLimit => &[],
        Field::HugepageLimits => &[F::Hugepages],
        Field::CgroupsUnified if change.key.as_deref() == Some(idle::FILE) => {
            if idle::value(value).is_some() { &[F::Cpu, F::CpuIdle] } else { &[F::CpuIdleValue] }
        }
        Field::CgroupsUnified => &[F::Unified],
        Field::BlockioClass if value.as_array().is_some_and(Vec::is_empty) => &[],
        Field::BlockioClass => match change.row.name {
            "blockIO.weight" => &[F::BlockIo, F::BlockIoWeight],
            "blockIO.weightDevice" => &[F::BlockIo, F::BlockIoWeightDevice],
            _ => &[F::BlockIo],
        },
    }
}

/// Reason why the runtime does not support a feature on the host; `None` if it does, or if the
/// runtime is unknown.
pub fn lack(feature: Feature, runtime: &RuntimeVersion, host: &HostCapabilities) -> Option<Lack> {
    let kind = runtime.kind?;
    let (_, runc, crun, youki) = ROWS.iter().find(|(f, ..)| *f == feature)?;
    let needs = match kind {
        RuntimeKind::Runc => runc,
        RuntimeKind::Crun => crun,
        RuntimeKind::Youki => youki,
    };
    let exception = exception(feature, runtime);
    exception.iter().chain(*needs).find_map(|need| need.lack(runtime, host))
}

/// A condition that only some versions of a runtime have, in addition to the conditions in `ROWS`.
fn exception(feature: Feature, runtime: &RuntimeVersion) -> Option<Need> {
    let before = |version| runtime.version.is_some_and(|v| v < version);
    match (feature, runtime.kind) {
        (Feature::BlockIoWeight | Feature::BlockIoWeightDevice, Some(RuntimeKind::Crun))
            if before(Version::new(1, 8, 2)) =>
        {
            Some(NO_BFQ_V1)
        }
        _ => None,
    }
}

impl Need {
    fn lack(self, runtime: &RuntimeVersion, host: &HostCapabilities) -> Option<Lack> {
        match self {
            Never => Some(Lack::Never),
            Since(version) => {
                runtime.version.filter(|v| *v < version).map(|_| Lack::Since(version))
            }
            V1 => host.cgroup_v2.then_some(Lack::Cgroup { v2: true }),
            V2 => (!host.cgroup_v2).then_some(Lack::Cgroup { v2: false }),
            Controller(name) if !host.controllers.contains(name) => Some(Lack::Controller(name)),
            Controller(name) => {
                let is_delegated = host.delegated.as_ref().is_none_or(|d| d.contains(name));
                (!is_delegated).then_some(Lack::NotDelegated(name))
            }
            Files(v2, names) => (host.cgroup_v2 == v2
                && !names.iter().any(|n| host.files.contains(*n)))
            .then_some(Lack::Files(names)),
            Resctrl => (!host.resctrl).then_some(Lack::Resctrl),
            KernelBefore(major, minor) => {
                (host.kernel >= (major, minor)).then_some(Lack::Kernel(major, minor))
            }
            ValuesV1(values) => (!host.cgroup_v2).then_some(Lack::Values(values)),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => write!(f, "no version supports it"),
            Self::Since(version) => write!(f, "supported since {version}"),
            Self::Cgroup { v2: true } => write!(f, "not available on cgroup v2"),
            Self::Cgroup { v2: false } => write!(f, "not available on cgroup v1"),
            Self::Controller(name) => {
                write!(f, "host has no cgroup controller {name}")
            }
            Self::NotDelegated(name) => {
                write!(f, "cgroup controller {name} is not delegated to the user of the engine")
            }
            Self::Files(names) => write!(f, "host has no cgroup file {}", names.join(" or ")),
            Self::Resctrl => write!(f, "resctrl is not mounted"),
            Self::Kernel(major, minor) => {
                write!(f, "ignored by Linux since {major}.{minor}")
            }
            Self::Values(values) => write!(f, "on cgroup v1 the value is {values}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A feature without a row would never be refused.
    #[test]
    fn each_feature_has_one_row() {
        let rows: Vec<_> = ROWS.iter().map(|(f, ..)| *f).collect();
        assert!(
            rows.is_sorted_by(|a, b| a < b),
            "rows are not in the order of `Feature`, or repeated"
        );
        assert_eq!(rows.len(), Feature::Unified as usize + 1);
    }
}
