//! What a class sets besides CPUs and memory nodes: the place of the cgroup, weights, memory
//! protection, classes of block I/O and RDT.

use crate::{
    cgroup::Place,
    placed::{Kind, Placed},
    policy::{Amount, Class, Cpus},
};
use nri_plugin::SetResources;

/// CPU shares of containers that run only when no other one wants the CPU, where `cpu.idle` does
/// not exist. The least that the kernel has.
const IDLE_SHARES: u64 = 2;

/// CPU shares of a container with exclusive CPUs at the root, the most that the kernel has: of its
/// own CPUs, only tasks of the host take something.
pub(crate) const EXCLUSIVE_SHARES: u64 = 262_144;

/// What the cgroups of the host have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    /// Version 1: no `memory.min`, `memory.low` and `memory.high`.
    V1 {
        /// Whether `cpu.idle` exists and the runtime sets it.
        has_idle: bool,
    },
    /// Version 2.
    V2,
}

impl Cgroups {
    /// Whether containers can be idle.
    pub fn has_idle(self) -> bool {
        self != Self::V1 { has_idle: false }
    }
}

/// Returns the path of the cgroup that a container gets which is being created; `None` if it stays
/// where the engine wants it.
pub fn cgroups_path<'a>(class: &Class, placed: &Placed, place: &'a Place) -> Option<&'a str> {
    let is_of_class = match placed.kind {
        Kind::Exclusive => true,
        Kind::Shared => class.cpus == Cpus::Shared,
        Kind::Pinned | Kind::Unmanaged => false,
    };
    match place {
        Place::Engine(at_root) if is_of_class && class.is_at_root() => Some(at_root),
        _ => None,
    }
}

/// Sets the weight that a class has, at a creation or in an update that would set another one.
pub fn set_shares(
    resources: &mut impl SetResources,
    class: &Class,
    placed: &Placed,
    is_at_root: bool,
    on: Cgroups,
) {
    let is_first = is_at_root && placed.kind == Kind::Exclusive;
    let shares = match class.idle {
        // An idle cgroup has none.
        true => (!on.has_idle()).then_some(IDLE_SHARES),
        false => class.shares.or(is_first.then_some(EXCLUSIVE_SHARES)),
    };
    if let Some(shares) = shares {
        resources.set_cpu_shares(shares);
    }
}

/// Sets what a class has for a container that is being created. `is_at_root` is whether its cgroup
/// is at the root.
pub fn set_all(
    resources: &mut impl SetResources,
    class: &Class,
    placed: &Placed,
    is_at_root: bool,
    on: Cgroups,
) {
    if class.idle && on.has_idle() {
        resources.add_unified("cpu.idle", "1");
    }
    set_shares(resources, class, placed, is_at_root, on);
    if let Some(name) = &class.blockio_class {
        resources.set_blockio_class(name);
    }
    if let Some(name) = &class.rdt_class {
        resources.set_rdt_class(name);
    }
    set_memory(resources, class, placed.request.memory_limit, on);
}

/// Sets what depends on the memory limit of a container.
pub fn set_memory(
    resources: &mut impl SetResources,
    class: &Class,
    limit: Option<u64>,
    on: Cgroups,
) {
    if on != Cgroups::V2 {
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

/// Returns why parts of a class have no effect on this host.
pub fn without_effect(class: &Class, on: Cgroups) -> Vec<&'static str> {
    let has_memory =
        [class.memory_min, class.memory_low, class.memory_high].iter().any(Option::is_some);
    let parts = [
        (
            on != Cgroups::V2 && has_memory,
            "memory_min, memory_low and memory_high have no effect: they need cgroup v2",
        ),
        (
            !on.has_idle() && class.idle,
            "idle is the lowest weight: cpu.idle needs cgroup v2, or Linux 5.15 and a newer nrid",
        ),
        (!on.has_idle() && class.lend == Some(true), "lend has no effect: it needs cpu.idle"),
    ];
    parts.into_iter().filter_map(|(is_without, why)| is_without.then_some(why)).collect()
}
