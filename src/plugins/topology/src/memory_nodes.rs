//! Memory nodes follow CPUs: a container gets the nodes of its CPUs, and more, the nearest first,
//! if the memory limits of containers do not fit into these.
//!
//! Memory fits if for each set of nodes that some container has, the limits of all containers
//! within the set are at most its memory. A container that has all nodes always fits: no other set
//! would be better.
//!
//! Whoever sets the CPUs of a container by the engine also sets its memory nodes, or none.

use crate::{
    allocator::Allocator,
    hardware::cpuset::{CpuSet, NodeSet},
    placed::Kind,
};
use std::collections::BTreeMap;

impl Allocator {
    /// Sets the memory nodes of containers whose CPUs are on other nodes than before. All others
    /// keep theirs, since a change moves their memory.
    pub(crate) fn refresh_nodes(&mut self) {
        if !self.policy.memory_nodes {
            return;
        }
        let ids: Vec<String> = self.containers.keys().cloned().collect();
        for id in ids {
            let placed = &self.containers[&id];
            if matches!(placed.kind, Kind::Unmanaged | Kind::Pinned) {
                continue;
            }
            let home = self.home_of(&placed.cpus);
            if home == placed.home && !placed.nodes.is_empty() {
                continue;
            }
            let nodes = self.nodes_for(&id, &home, placed.request.memory_limit);
            if let Some(placed) = self.containers.get_mut(&id) {
                (placed.nodes, placed.home) = (nodes, home);
            }
        }
    }

    /// Returns the nodes with memory that are nearest to CPUs: those of the CPUs themselves, if
    /// they have memory.
    pub fn home_of(&self, cpus: &CpuSet) -> NodeSet {
        let with_memory = self.machine.memory_nodes();
        let nodes = self.machine.nodes_of(cpus);
        let home = nodes.and(&with_memory);
        if !home.is_empty() {
            return home;
        }
        let nearest = with_memory.iter().min_by_key(|node| self.distance_from(&nodes, *node));
        nearest.into_iter().collect()
    }

    /// Whether a container can keep the memory nodes that it has.
    pub(crate) fn accepts_nodes(&self, id: &str, nodes: &NodeSet) -> bool {
        let Some(placed) = self.containers.get(id) else { return false };
        let (home, limit) = (self.home_of(&placed.cpus), placed.request.memory_limit);
        let is_near = *nodes == home
            || limit.is_some() && home.is_subset(nodes) && nodes.is_subset(&self.all_nodes());
        is_near && self.fits(nodes, limit, &self.limits(id))
    }

    fn all_nodes(&self) -> NodeSet {
        self.machine.memory_nodes()
    }

    fn nodes_for(&self, id: &str, home: &NodeSet, limit: Option<u64>) -> NodeSet {
        let limits = self.limits(id);
        let (mut nodes, all) = (home.clone(), self.all_nodes());
        while !self.fits(&nodes, limit, &limits) {
            let others = all.minus(&nodes);
            let nearest = others.iter().min_by_key(|node| self.distance_from(home, *node));
            let Some(nearest) = nearest else { break };
            nodes.insert(nearest);
        }
        nodes
    }

    fn distance_from(&self, nodes: &NodeSet, to: usize) -> u32 {
        nodes.iter().map(|node| self.machine.distance(node, to)).min().unwrap_or(u32::MAX)
    }

    /// Returns the sums of the limits of all other containers, by their memory nodes.
    fn limits(&self, except: &str) -> BTreeMap<&NodeSet, u64> {
        let mut limits = BTreeMap::new();
        for (id, placed) in &self.containers {
            if let Some(limit) = placed.request.memory_limit.filter(|_| id != except) {
                let sum = limits.entry(&placed.nodes).or_insert(0u64);
                *sum = sum.saturating_add(limit);
            }
        }
        limits
    }

    fn fits(&self, nodes: &NodeSet, limit: Option<u64>, limits: &BTreeMap<&NodeSet, u64>) -> bool {
        let Some(limit) = limit else { return true };
        let all = self.all_nodes();
        let sets = limits.keys().copied().chain([nodes]);
        let mut sets = sets.filter(|set| nodes.is_subset(set) && !all.is_subset(set));
        sets.all(|set| {
            let within = limits.iter().filter(|(of, _)| !of.is_empty() && of.is_subset(set));
            let sum = within.fold(limit, |sum, (_, more)| sum.saturating_add(*more));
            sum <= self.machine.memory_of(set)
        })
    }
}
