//! What a class sets besides CPUs and memory nodes: weights, memory protection, classes of block
//! I/O and RDT.

use crate::policy::{Amount, Class};
use nri_plugin::SetResources;

/// CPU shares of containers that run only when no other one wants the CPU, where `cpu.idle` does
/// not exist. The least that the kernel has.
const IDLE_SHARES: u64 = 2;

/// Version of cgroups of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    /// Version 1: no `cpu.idle`, no `memory.min`, `memory.low` and `memory.high`.
    V1,
    /// Version 2.
    V2,
}

/// Sets what a class has for a container that is being created.
pub fn set_all(resources: &mut impl SetResources, class: &Class, limit: Option<u64>, on: Cgroups) {
    match (class.idle, on) {
        (true, Cgroups::V1) => _ = resources.set_cpu_shares(IDLE_SHARES),
        (true, Cgroups::V2) => _ = resources.add_unified("cpu.idle", "1"),
        (false, _) => {}
    }
    if let Some(shares) = class.shares {
        resources.set_cpu_shares(shares);
    }
    if let Some(name) = &class.blockio_class {
        resources.set_blockio_class(name);
    }
    if let Some(name) = &class.rdt_class {
        resources.set_rdt_class(name);
    }
    set_memory(resources, class, limit, on);
}

/// Sets what depends on the memory limit of a container.
pub fn set_memory(
    resources: &mut impl SetResources,
    class: &Class,
    limit: Option<u64>,
    on: Cgroups,
) {
    if on == Cgroups::V1 {
        return;
    }
    let files = [
        ("memory.min", class.memory_min),
        ("memory.low", class.memory_low),
        ("memory.high", class.memory_high),
    ];
    for (file, amount) in files {
        if let Some(bytes) = amount.and_then(|amount: Amount| amount.bytes(limit)) {
            resources.add_unified(file, bytes.to_string());
        }
    }
}

/// Returns why a part of a class has no effect on this host.
pub fn without_effect(class: &Class, on: Cgroups) -> Option<&'static str> {
    let has_memory =
        [class.memory_min, class.memory_low, class.memory_high].iter().any(Option::is_some);
    (on == Cgroups::V1 && has_memory)
        .then_some("memory_min, memory_low and memory_high have no effect: they need cgroup v2")
}
