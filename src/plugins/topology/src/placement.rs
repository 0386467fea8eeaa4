//! Choice of CPUs: as few packages, memory nodes, caches and cores as possible. Of several equal
//! choices the one with the fewest cores that others use as well, and of these the one that leaves
//! the largest groups of free CPUs to others.

use crate::{
    hardware::{
        cpuset::CpuSet,
        machine::{Level, Machine},
    },
    policy::{Smt, Within},
};
use std::cmp::Reverse;

/// What CPUs are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// How many. With whole cores, it may be one core's threads more.
    pub count: usize,
    /// What happens to the other threads of a core.
    pub smt: Smt,
    /// The CPUs that are suitable, such as those of one kind of cores.
    pub suitable: &'a CpuSet,
    /// The groups of which one must have all CPUs.
    pub within: Within,
}

/// CPUs for a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// CPUs on which the container runs.
    pub cpus: CpuSet,
    /// CPUs that no other container may use: these, and with [`Smt::Single`] the other threads of
    /// their cores.
    pub owned: CpuSet,
}

/// How far CPUs are from each other: the numbers of packages, memory nodes, caches of level 3 and
/// cores that they span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Packages.
    pub packages: usize,
    /// Memory nodes.
    pub nodes: usize,
    /// Caches of level 3.
    pub caches: usize,
    /// Cores.
    pub cores: usize,
}

impl Span {
    /// Returns the span of CPUs.
    pub fn of(machine: &Machine, cpus: &CpuSet) -> Self {
        Self {
            packages: machine.spanned(Level::Package, cpus),
            nodes: machine.spanned(Level::Node, cpus),
            caches: machine.spanned(Level::L3, cpus),
            cores: machine.spanned(Level::Core, cpus),
        }
    }

    /// Whether these CPUs are closer than others: cores do not count, since a move costs more than
    /// it brings.
    pub fn is_closer(&self, other: &Self) -> bool {
        (self.packages, self.nodes, self.caches) < (other.packages, other.nodes, other.caches)
    }
}

/// Chooses CPUs from the free ones. Returns `None` if there are not enough.
pub fn choose(machine: &Machine, free: &CpuSet, wanted: &Wanted<'_>) -> Option<Choice> {
    let candidates = candidates(machine, free, wanted);
    let search = Search { machine, smt: wanted.smt };
    let groups = match wanted.within.level() {
        None => vec![candidates],
        Some(level) => {
            let groups = machine.groups(level).iter().map(|group| group.and(&candidates));
            let mut groups: Vec<CpuSet> = groups.filter(|g| g.len() >= wanted.count).collect();
            // Stable: equal ones stay in order.
            groups.sort_by_key(|group| (search.split_cores(group, wanted.count), group.len()));
            groups
        }
    };
    let group = groups.into_iter().find(|group| group.len() >= wanted.count.max(1))?;
    let cpus = search.fill(0, &group, wanted.count);
    Some(choice(machine, cpus, wanted.smt))
}

/// Chooses CPUs in addition to some, as near to them as possible.
pub fn extend(
    machine: &Machine,
    free: &CpuSet,
    have: &CpuSet,
    wanted: &Wanted<'_>,
) -> Option<Choice> {
    let missing = wanted.count.checked_sub(have.len()).filter(|missing| *missing > 0)?;
    let mut candidates = candidates(machine, free, wanted);
    if let Some(level) = wanted.within.level() {
        let group = machine.groups(level).iter().find(|group| have.is_subset(group))?;
        candidates = candidates.and(group);
    }
    // Each domain comes after its parent: the last one that fits is among the smallest.
    let domains = machine.tree().iter().enumerate().rev();
    let (index, domain) = domains
        .filter(|(_, domain)| have.is_subset(&domain.cpus))
        .find(|(_, domain)| domain.cpus.common(&candidates) >= missing)?;
    let search = Search { machine, smt: wanted.smt };
    let more = search.fill(index, &candidates.and(&domain.cpus), missing);
    Some(choice(machine, have.or(&more), wanted.smt))
}

/// Returns the CPUs that can be chosen. With whole cores, cores of which another container has a
/// thread are none.
fn candidates(machine: &Machine, free: &CpuSet, wanted: &Wanted<'_>) -> CpuSet {
    let suitable = free.and(wanted.suitable);
    match wanted.smt {
        Smt::Share => suitable,
        Smt::Whole | Smt::Single => {
            let cores = machine.cores().filter(|core| core.is_subset(&suitable));
            match wanted.smt {
                Smt::Single => cores.filter_map(CpuSet::first).collect(),
                _ => cores.fold(CpuSet::new(), |all, core| all.or(core)),
            }
        }
    }
}

/// Returns the number of cores that a container with `count` of these free CPUs has to share with
/// others: as many whole cores as it can fill, and other cores for the rest.
fn split_cores(machine: &Machine, free: &CpuSet, count: usize) -> usize {
    let (mut whole, mut partial, mut rest) = (Vec::new(), Vec::new(), free.clone());
    while let Some(core) = rest.first().and_then(|cpu| machine.core_of(cpu)) {
        let threads = core.common(free);
        if threads == core.len() { &mut whole } else { &mut partial }.push(threads);
        rest = rest.minus(core);
    }
    let mut missing = count;
    let mut take = |mut cores: Vec<usize>, fills: bool| {
        cores.sort_by_key(|threads| Reverse(*threads));
        let mut taken = 0;
        for threads in cores {
            if missing > 0 && (threads <= missing || !fills) {
                missing = missing.saturating_sub(threads);
                taken += 1;
            }
        }
        taken
    };
    take(whole, true);
    let split = take(partial, false);
    split + usize::from(missing > 0) // a whole core that it does not fill
}

fn choice(machine: &Machine, cpus: CpuSet, smt: Smt) -> Choice {
    let owned = match smt {
        Smt::Share => cpus.clone(),
        Smt::Whole | Smt::Single => machine.cores_of(&cpus),
    };
    Choice { cpus, owned }
}

struct Search<'a> {
    machine: &'a Machine,
    smt: Smt,
}

impl Search<'_> {
    /// Returns `count` CPUs of a domain, which has as many candidates.
    fn fill(&self, within: usize, candidates: &CpuSet, count: usize) -> CpuSet {
        let index = self.tightest(within, candidates, count);
        let domain = &self.machine.tree()[index];
        if domain.children.is_empty() {
            let cpus = domain.cpus.and(candidates);
            return match self.smt {
                Smt::Share => cpus.iter().take(count).collect(),
                Smt::Whole | Smt::Single => cpus,
            };
        }
        // No part has enough: the largest part as a whole, and the rest as near as possible.
        let mut parts: Vec<(usize, CpuSet)> = domain
            .children
            .iter()
            .map(|child| (*child, self.machine.tree()[*child].cpus.and(candidates)))
            .filter(|(_, free)| !free.is_empty())
            .collect();
        let (mut chosen, mut missing) = (CpuSet::new(), count);
        while missing > 0 && !parts.is_empty() {
            let distance = |part: &CpuSet| self.machine.distance_of(&chosen, part);
            let fitting = parts.iter().filter(|(_, free)| free.len() >= missing);
            let fitting = fitting.min_by_key(|(_, free)| {
                (distance(free), self.split_cores(free, missing), free.len())
            });
            if let Some((child, free)) = fitting {
                return chosen.or(&self.fill(*child, free, missing));
            }
            let next = parts.iter().enumerate();
            let next = next.min_by_key(|(_, (_, free))| (distance(free), Reverse(free.len())));
            let Some((position, _)) = next else { break };
            let (_, free) = parts.remove(position);
            missing = missing.saturating_sub(free.len());
            chosen = chosen.or(&free);
        }
        chosen
    }

    /// As [`split_cores`]; 0 if no core is split.
    fn split_cores(&self, free: &CpuSet, count: usize) -> usize {
        match self.smt {
            Smt::Share => split_cores(self.machine, free, count),
            Smt::Whole | Smt::Single => 0,
        }
    }

    /// Returns the domain to take CPUs from: the smallest one with enough candidates. Of several,
    /// the one with the fewest cores to split, then with the fewest candidates in it, then in the
    /// domain around it, and so on.
    fn tightest(&self, within: usize, candidates: &CpuSet, count: usize) -> usize {
        let tree = self.machine.tree();
        let free: Vec<usize> = tree.iter().map(|d| d.cpus.common(candidates)).collect();
        let split = |index: usize| self.split_cores(&tree[index].cpus.and(candidates), count);
        let mut best = (within, tree[within].cpus.len(), split(within));
        let mut stack = vec![within];
        while let Some(index) = stack.pop() {
            let size = tree[index].cpus.len();
            if size <= best.1 {
                let split = split(index);
                let is_better = (size, split) < (best.1, best.2)
                    || (size, split) == (best.1, best.2) && self.is_tighter(index, best.0, &free);
                if is_better {
                    best = (index, size, split);
                }
            }
            stack.extend(tree[index].children.iter().rev().filter(|child| free[**child] >= count));
        }
        best.0
    }

    /// Compares the numbers of candidates in two domains and in those around them.
    fn is_tighter(&self, mut a: usize, mut b: usize, free: &[usize]) -> bool {
        let tree = self.machine.tree();
        loop {
            if free[a] != free[b] {
                return free[a] < free[b];
            }
            match (tree[a].parent, tree[b].parent) {
                (Some(next_a), Some(next_b)) if next_a != next_b => (a, b) = (next_a, next_b),
                _ => return false,
            }
        }
    }
}
