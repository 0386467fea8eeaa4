//! CPU and cpuset controllers, each value with a separate owner. An empty `cpus` or `mems` in a
//! reply adjusts nothing.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxCPU, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    let cpu = &requested.cpu;
    claims.claim_fields([
        (cpu.shares.is_some(), Field::CPUShares),
        (cpu.quota.is_some(), Field::CPUQuota),
        (cpu.period.is_some(), Field::CPUPeriod),
        (cpu.realtime_runtime.is_some(), Field::CPURealtimeRuntime),
        (cpu.realtime_period.is_some(), Field::CPURealtimePeriod),
        (!cpu.cpus.is_empty(), Field::CPUSetCPUs),
        (!cpu.mems.is_empty(), Field::CPUSetMems),
    ])
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    if *requested.cpu == LinuxCPU::default() {
        return;
    }
    let (from, to) = (&requested.cpu, into.cpu.mut_or_insert_default());
    macro_rules! copy_if_set {
        ($($field:ident),*) => {$(
            if from.$field.is_some() {
                to.$field.clone_from(&from.$field);
            }
        )*};
    }
    copy_if_set!(shares, quota, period, realtime_runtime, realtime_period);
    if !from.cpus.is_empty() {
        to.cpus.clone_from(&from.cpus);
    }
    if !from.mems.is_empty() {
        to.mems.clone_from(&from.mems);
    }
}
