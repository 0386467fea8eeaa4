//! Whether a request can be satisfied, found in another way than by the allocator: by counting.

use nri_topology::{
    allocator::Allocator,
    hardware::cpuset::CpuSet,
    placed::Kind,
    policy::{Cores, Smt},
    request::Request,
};

/// Returns whether exclusive CPUs for a request exist. `None` if it wants none, or where counting
/// is not enough.
pub(crate) fn is_possible(allocator: &Allocator, request: &Request) -> Option<bool> {
    let class = &allocator.policy().classes[&request.class];
    if request.count == 0 || request.pinned.is_some() || class.smt != Smt::Share {
        return None;
    }
    let machine = allocator.machine();
    let mut used = allocator.reserved().or(&machine.isolated);
    let mut pinned = CpuSet::new();
    for placed in allocator.containers().values() {
        match placed.kind {
            Kind::Exclusive => used = used.or(&placed.occupied()),
            Kind::Pinned => pinned = pinned.or(&placed.cpus),
            Kind::Shared | Kind::Unmanaged => {}
        }
    }
    let pool = machine.cpus.minus(&used);
    let of_account = allocator.containers().values().filter(|placed| {
        placed.kind == Kind::Exclusive && placed.request.account == request.account
    });
    let taken: usize = of_account.map(|placed| placed.occupied().len()).sum();
    if allocator.allowed(&request.account).is_some_and(|most| taken + request.count > most) {
        return Some(false);
    }
    let remaining = pool.len().checked_sub(request.count);
    if remaining.is_none_or(|remaining| remaining < allocator.policy().shared_min.max(1)) {
        return Some(false);
    }
    let fits = |free: CpuSet| {
        let free = match class.cores {
            Cores::Performance => free.and(&machine.kinds[0]),
            _ => free,
        };
        match class.within.level() {
            None => free.len() >= request.count,
            Some(level) => machine.groups(level).iter().any(|g| g.common(&free) >= request.count),
        }
    };
    // Which CPUs of engines are held is not counted here.
    match (fits(pool.minus(&pinned)), fits(pool)) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}
