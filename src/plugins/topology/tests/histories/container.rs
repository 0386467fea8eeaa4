//! A container as engine and kernel have it.

use nri_topology::{
    existing::Assigned,
    hardware::{cpuset::CpuSet, machine::Machine},
    placed::{Assignment, Kind, Placed},
    request::CPUS_KEY,
    subject::Subject,
};

/// A container that exists.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) subject: Subject,
    /// What it has; empty sets until some are set.
    pub(crate) has: Assignment,
    /// Annotations of the plugin. `None` if the plugin did not see it.
    pub(crate) assigned: Option<Assigned>,
    /// When it was created.
    pub(crate) created_at: i64,
    /// Whether its last update has failed, and the plugin does not know it.
    pub(crate) is_stale: bool,
    /// Whether the plugin has set the CPUs that it has.
    pub(crate) is_own: bool,
    /// CPUs that the engine has set for it.
    pub(crate) pinned: Option<CpuSet>,
}

/// Returns what the plugin writes into the annotations of a container.
pub(crate) fn assigned(placed: &Placed) -> Assigned {
    let cpuset = placed.request.pinned.as_ref().filter(|_| placed.kind == Kind::Pinned);
    Assigned {
        kind: placed.kind,
        class: placed.request.class.clone(),
        cpuset: cpuset.map(|(cpus, _)| cpus.clone()),
        count: (placed.kind == Kind::Exclusive).then_some(placed.request.count),
        has_own: true,
        reason: None,
        borrows: placed.request.borrows,
        is_proven: true,
    }
}

/// Sets the requested CPUs and the memory limit.
pub(crate) fn set_size(subject: &mut Subject, machine: &Machine, size: u32) {
    let most = machine.cpus.len() as u32 / 3 + 2;
    match size % 8 {
        0 => subject.milli_cpus = 0,
        1 => subject.milli_cpus = u64::from(size / 8 % most) * 1000 + 500,
        2..5 => subject.milli_cpus = u64::from(1 + size / 8 % most) * 1000,
        _ => {
            let count = 1 + size / 8 % most;
            subject.annotations.insert(CPUS_KEY.to_owned(), count.to_string());
        }
    }
    let memory = machine.memory_of(&machine.memory_nodes());
    let parts = u64::from(1 + size / 512 % 20);
    subject.memory_limit = ((size / 64).is_multiple_of(3)).then_some(memory / 20 * parts);
}
