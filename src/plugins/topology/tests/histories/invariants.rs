//! What must be true at any time, of what the plugin knows and of what containers have.

use crate::container::Container;
use nri_topology::{
    allocator::Allocator,
    hardware::cpuset::CpuSet,
    placed::Kind,
    policy::{Cpus, Smt},
};
use std::collections::BTreeMap;

/// Checks all invariants, and returns the first one that is violated. `is_known` is whether the
/// runtime says what plugins have set.
pub(crate) fn check(
    allocator: &Allocator,
    containers: &BTreeMap<String, Container>,
    is_known: bool,
) -> Result<(), String> {
    let (machine, policy) = (allocator.machine(), allocator.policy());
    let known: Vec<&String> = allocator.containers().keys().collect();
    if known != containers.keys().collect::<Vec<_>>() {
        return Err(format!("the plugin knows {known:?}"));
    }
    let never = allocator.reserved().or(&machine.isolated);
    let pool = allocator.pool();
    let mut all = never.clone();
    for (id, placed) in allocator.containers() {
        let fail = |what: &str| Err(format!("{what}: {id} {placed:?} pool {pool:?}"));
        let (class, has) = (&policy.classes[&placed.request.class], &containers[id].has);
        match placed.kind {
            Kind::Unmanaged => continue,
            Kind::Exclusive => {
                if placed.owned.intersects(&all) {
                    return fail("CPUs are reserved, or exclusive twice");
                }
                if placed.kept.intersects(&all.or(&placed.owned)) {
                    return fail("CPUs that are given up are given twice");
                }
                all = all.or(&placed.occupied());
                let (count, threads) = (placed.request.count, machine.cores_of(&placed.cpus));
                let is_right = match class.smt {
                    Smt::Share => placed.cpus.len() == count && placed.owned == placed.cpus,
                    Smt::Single => {
                        placed.cpus.len() == count
                            && machine.cores().filter(|c| c.intersects(&placed.cpus)).count()
                                == count
                            && placed.owned == threads
                    }
                    Smt::Whole => {
                        placed.owned == threads
                            && placed.cpus == threads
                            && placed.cpus.len() >= count
                    }
                };
                if !is_right {
                    return fail("wrong CPUs");
                }
                if let Some(level) = class.within.level()
                    && machine.spanned(level, &placed.cpus) != 1
                {
                    return fail("not within one group");
                }
            }
            Kind::Shared => {
                let lent = if placed.request.borrows { lent(allocator) } else { CpuSet::new() };
                if !placed.cpus.intersects(&pool) || !placed.cpus.is_subset(&pool.or(&lent)) {
                    return fail("not in the shared pool");
                }
                if class.cpus == Cpus::Exclusive && placed.reason.is_none() {
                    return fail("no reason");
                }
            }
            Kind::Pinned => {
                // Without a record, those of them are known that the container had at a start.
                let asked = placed.request.pinned.as_ref().map(|(cpus, _)| cpus);
                let set = if is_known { containers[id].pinned.as_ref() } else { asked };
                let set = set.map(|set| set.and(&machine.cpus)).unwrap_or_default();
                let all = allocator.containers().values();
                let left = all.fold(set, |left, placed| left.minus(&placed.occupied()));
                let right = if left.is_empty() { &pool } else { &left };
                if placed.cpus != *right {
                    return fail("wrong CPUs of those that the engine has set");
                }
            }
        }
        if containers[id].is_stale {
            if !has.cpus.is_subset(&placed.cpus.or(&placed.kept)) && placed.kind == Kind::Exclusive
            {
                return fail(&format!("the container has {:?}", has.cpus));
            }
            continue;
        }
        if has.cpus != placed.cpus {
            return fail(&format!("the container has {:?}", has.cpus));
        }
        if policy.memory_nodes && placed.kind != Kind::Pinned {
            memory(allocator, id, &has.nodes)?;
        }
    }
    if !all.is_subset(&machine.cpus.or(&never)) || pool != machine.cpus.minus(&all) {
        return Err(format!("wrong pool: {pool:?}"));
    }
    if pool.len() < policy.shared_min.max(1) {
        return Err(format!("the shared pool is too small: {pool:?}"));
    }
    for (account, taken) in allocator.taken() {
        let sum: usize = taken.by.iter().map(|(_, cpus)| cpus).sum();
        let is_over = allocator.allowed(&account).is_some_and(|most| taken.cpus.len() > most);
        let is_held = allocator.containers().values().any(|placed| {
            placed.kind == Kind::Pinned && taken.by.iter().any(|(n, _)| *n == placed.request.name)
        });
        // An update can let CPUs count that a rule has given.
        if is_over && is_held || taken.cpus.len() > sum {
            return Err(format!("{account:?} has taken too much: {taken:?}"));
        }
    }
    apart(allocator, containers)
}

/// Checks that no container has exclusive CPUs of another, or is given CPUs that another one has
/// exclusively, whatever the plugin knows.
pub(crate) fn apart(
    allocator: &Allocator,
    containers: &BTreeMap<String, Container>,
) -> Result<(), String> {
    for (id, placed) in allocator.containers() {
        let others = containers.iter().filter(|(other, _)| *other != id);
        let managed = others.filter(|(o, _)| allocator.containers()[*o].kind != Kind::Unmanaged);
        // What is lent, idle containers have, too.
        let is_lent = allocator.policy().classes[&placed.request.class].lends();
        let managed =
            managed.filter(|(o, _)| !is_lent || !allocator.containers()[*o].request.borrows);
        for (other, container) in managed {
            if container.has.cpus.intersects(&placed.owned) {
                return Err(format!("{other} has CPUs of {id}: {:?}", container.has.cpus));
            }
            let (wanted, has) = (&allocator.containers()[other].cpus, &containers[id].has.cpus);
            if placed.kind == Kind::Exclusive && wanted.intersects(has) {
                return Err(format!("{other} gets CPUs {wanted:?}, and {id} has {has:?}"));
            }
        }
    }
    Ok(())
}

/// Exclusive CPUs of which containers of idle classes use what is left.
fn lent(allocator: &Allocator) -> CpuSet {
    let all = allocator.containers().values().filter(|placed| placed.kind == Kind::Exclusive);
    let lenders = all.filter(|p| allocator.policy().classes[&p.request.class].lends());
    lenders.fold(CpuSet::new(), |lent, placed| lent.or(&placed.occupied()))
}

/// Memory nodes are those of the CPUs, and more only if limits do not fit.
fn memory(allocator: &Allocator, id: &str, nodes: &CpuSet) -> Result<(), String> {
    let machine = allocator.machine();
    let (placed, all) = (&allocator.containers()[id], machine.memory_nodes());
    let fail = |what: &str| Err(format!("{what}: {id} has {nodes:?}: {placed:?}"));
    if *nodes != placed.nodes || nodes.is_empty() || !nodes.is_subset(&all) {
        return fail("wrong memory nodes");
    }
    let of_cpus = machine.nodes_of(&placed.cpus).and(&all);
    if !of_cpus.is_subset(nodes) {
        return fail("memory nodes do not follow CPUs");
    }
    if placed.request.memory_limit.is_none() && !of_cpus.is_empty() && *nodes != of_cpus {
        return fail("more memory nodes than needed");
    }
    let within = allocator.containers().values().filter(|other| {
        !other.nodes.is_empty() && other.nodes.is_subset(nodes) && other.kind != Kind::Unmanaged
    });
    let sum: u128 = within.filter_map(|other| other.request.memory_limit).map(u128::from).sum();
    if *nodes != all
        && placed.request.memory_limit.is_some()
        && sum > u128::from(machine.memory_of(nodes))
    {
        return fail("memory limits do not fit");
    }
    Ok(())
}
