//! The shared pool: which part of it a container uses. Containers of idle classes use exclusive
//! CPUs, too, which classes lend. A class can limit its containers to one
//! memory node, package or cache each; they are spread by how much CPU time they ask for.

use crate::{
    allocator::Allocator,
    hardware::{cpuset::CpuSet, machine::Level},
    placed::{Kind, Placed},
    policy::Smt,
};

/// Load of a container that asks for no CPU time, in thousandths of a CPU.
const DEFAULT_LOAD: u64 = 100;

/// Load of a group and the number of its shared CPUs; compared by load per CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) milli: u64,
    pub(crate) cpus: usize,
}

impl Load {
    /// Whether there is less load per CPU.
    pub(crate) fn is_less(self, other: Self) -> bool {
        let per_cpu = |a: Self, b: Self| u128::from(a.milli) * b.cpus as u128;
        per_cpu(self, other) < per_cpu(other, self)
    }
}

/// Returns the load of one container in a group with this number of shared CPUs. It cannot use
/// more than these: a limit of any size must not keep all others away.
pub(crate) fn load_of(placed: &Placed, cpus: usize) -> u64 {
    let most = u64::try_from(cpus).unwrap_or(u64::MAX).saturating_mul(1000);
    placed.request.milli_cpus.min(most).max(DEFAULT_LOAD)
}

impl Allocator {
    /// Sets the CPUs of all containers that share CPUs. A container changes its group only if the
    /// group has no shared CPU any more.
    pub(crate) fn refresh_shared(&mut self) {
        let (pool, lent) = (self.pool(), self.lent());
        let ids: Vec<String> = self.shared().map(|(id, _)| id.clone()).collect();
        for id in ids {
            let usable =
                if self.containers[&id].request.borrows { pool.or(&lent) } else { pool.clone() };
            let Some(level) = self.level_of(&id) else {
                self.change(&id, |placed| placed.cpus = usable);
                continue;
            };
            let known = self.containers[&id].group;
            let groups = self.machine.groups(level);
            let known = known.filter(|g| groups.get(*g).is_some_and(|g| g.intersects(&pool)));
            let group = known.or_else(|| self.least_loaded(level, &pool));
            let cpus = match group {
                Some(group) => usable.and(&self.machine.groups(level)[group]),
                None => usable,
            };
            self.change(&id, |placed| (placed.cpus, placed.group) = (cpus, group));
        }
    }

    /// Returns the exclusive CPUs that containers of idle classes may use. With [`Smt::Single`],
    /// the other threads of their cores stay unused.
    pub(crate) fn lent(&self) -> CpuSet {
        let exclusive = self.containers.values().filter(|p| p.kind == Kind::Exclusive);
        exclusive.fold(CpuSet::new(), |lent, placed| match self.class(&placed.request) {
            class if !class.lends() => lent,
            class if class.smt == Smt::Single => lent.or(&placed.cpus),
            _ => lent.or(&placed.occupied()),
        })
    }

    /// Returns the containers that share CPUs.
    pub(crate) fn shared(&self) -> impl Iterator<Item = (&String, &Placed)> {
        self.containers.iter().filter(|(_, placed)| placed.kind == Kind::Shared)
    }

    /// Returns the level (package, node, cache) to one of whose groups of CPUs the container's
    /// class limits it; `None` if the class has no `within`.
    pub(crate) fn level_of(&self, id: &str) -> Option<Level> {
        self.class(&self.containers.get(id)?.request).within.level()
    }

    /// Returns the loads of the groups of a level that have shared CPUs, by the groups' indices.
    pub(crate) fn loads(&self, level: Level, pool: &CpuSet) -> Vec<(usize, Load)> {
        let groups = self.machine.groups(level).iter().enumerate();
        let groups = groups.map(|(index, group)| (index, pool.common(group)));
        let load = |group: usize, cpus: usize| {
            let shared = self.shared().filter(|(id, placed)| {
                placed.group == Some(group) && self.level_of(id) == Some(level)
            });
            shared.map(|(_, placed)| load_of(placed, cpus)).sum()
        };
        let groups = groups.filter(|(_, cpus)| *cpus > 0);
        groups.map(|(index, cpus)| (index, Load { milli: load(index, cpus), cpus })).collect()
    }

    fn least_loaded(&self, level: Level, pool: &CpuSet) -> Option<usize> {
        let loads = self.loads(level, pool).into_iter();
        let least = loads.reduce(|best, next| if next.1.is_less(best.1) { next } else { best });
        least.map(|(group, _)| group)
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut Placed)) {
        if let Some(placed) = self.containers.get_mut(id) {
            change(placed);
        }
    }
}
