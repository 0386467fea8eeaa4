//! Model of a machine: CPUs, cores, caches, packages, memory nodes, kinds of cores.
//!
//! Groups of CPUs form a tree of domains, from the machine to its cores. It is built from any
//! groups: how packages, memory nodes and caches contain each other differs between machines. A
//! group that overlaps another one is not in the tree, but known by its level.

use crate::hardware::cpuset::{CpuSet, NodeSet};
use std::collections::BTreeMap;

/// What a group of CPUs has in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// All online CPUs.
    Machine,
    /// A processor in its socket.
    Package,
    /// A die of a package.
    Die,
    /// A memory node (NUMA).
    Node,
    /// A cache of level 3.
    L3,
    /// Cores of the same kind in a package, on hybrid processors.
    Kind,
    /// A cluster of cores, with a cache of level 2 or the like.
    Cluster,
    /// The threads of a core.
    Core,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its online CPUs; may be empty.
    pub cpus: CpuSet,
    /// Its memory in bytes; may be 0.
    pub memory: u64,
    /// Distance to nodes by number. A node itself has 10.
    pub distances: BTreeMap<usize, u32>,
}

/// A group of CPUs in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// All levels that have this group.
    pub levels: Vec<Level>,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The groups within, by their indices. They are disjoint and have all CPUs of this group; a
    /// core has none.
    pub children: Vec<usize>,
    /// The index of the group around.
    pub parent: Option<usize>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// All online CPUs.
    pub cpus: CpuSet,
    /// CPUs that the kernel does not schedule on by itself (`isolcpus=`).
    pub isolated: CpuSet,
    /// CPUs that serve most interrupts of devices.
    pub serving: CpuSet,
    /// Memory nodes by number.
    pub nodes: BTreeMap<usize, Node>,
    /// The fastest cores, and all others if there are several kinds.
    pub kinds: Vec<CpuSet>,
    groups: BTreeMap<Level, Vec<CpuSet>>,
    core_of: BTreeMap<usize, CpuSet>,
    tree: Vec<Domain>,
}

/// What a machine is made of.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// All online CPUs.
    pub cpus: CpuSet,
    /// See [`Machine::isolated`].
    pub isolated: CpuSet,
    /// See [`Machine::serving`].
    pub serving: CpuSet,
    /// See [`Machine::nodes`].
    pub nodes: BTreeMap<usize, Node>,
    /// See [`Machine::kinds`].
    pub kinds: Vec<CpuSet>,
    /// Groups of other levels than nodes and kinds; they may have CPUs that are offline.
    pub groups: Vec<(Level, CpuSet)>,
}

impl Machine {
    /// Builds the model.
    pub fn new(parts: Parts) -> Self {
        let Parts { cpus, isolated, serving, mut nodes, kinds, groups } = parts;
        for node in nodes.values_mut() {
            node.cpus = node.cpus.and(&cpus);
        }
        let mut by_level = BTreeMap::<Level, Vec<CpuSet>>::new();
        let mut add = |level: Level, group: &CpuSet| {
            let (group, known) = (group.and(&cpus), by_level.entry(level).or_default());
            if !group.is_empty() && !known.contains(&group) {
                known.push(group);
            }
        };
        add(Level::Machine, &cpus);
        groups.iter().filter(|(level, _)| *level != Level::Core).for_each(|(l, g)| add(*l, g));
        nodes.values().for_each(|node| add(Level::Node, &node.cpus));
        let mut core_of = BTreeMap::<usize, CpuSet>::new();
        let cores = groups.iter().filter(|(level, _)| *level == Level::Core);
        for core in cores.map(|(_, core)| core.and(&cpus)) {
            if !core.iter().any(|cpu| core_of.contains_key(&cpu)) {
                core_of.extend(core.iter().map(|cpu| (cpu, core.clone())));
            }
        }
        for cpu in cpus.iter() {
            let core = core_of.entry(cpu).or_insert_with(|| CpuSet::from_iter([cpu])).clone();
            add(Level::Core, &core);
        }
        if kinds.len() > 1 {
            let packages: Vec<CpuSet> = groups
                .iter()
                .filter(|(l, _)| *l == Level::Package)
                .map(|(_, g)| g.clone())
                .collect();
            let all = [cpus.clone()];
            for package in if packages.is_empty() { &all[..] } else { &packages } {
                kinds.iter().for_each(|kind| add(Level::Kind, &kind.and(package)));
            }
        }
        by_level.values_mut().for_each(|groups| groups.sort_by_key(CpuSet::first));
        let tree = tree(&by_level, &core_of);
        Self { cpus, isolated, serving, nodes, kinds, groups: by_level, core_of, tree }
    }

    /// Returns the groups of a level, in the order of their first CPUs.
    pub fn groups(&self, level: Level) -> &[CpuSet] {
        self.groups.get(&level).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the domains. The first one is the machine, and each comes after its parent.
    pub fn tree(&self) -> &[Domain] {
        &self.tree
    }

    /// Returns all threads of the cores that have these CPUs.
    pub fn cores_of(&self, cpus: &CpuSet) -> CpuSet {
        let cores = cpus.iter().filter_map(|cpu| self.core_of.get(&cpu));
        cores.fold(CpuSet::new(), |all, core| all.or(core))
    }

    /// Returns the threads of the core of a CPU.
    pub fn core_of(&self, cpu: usize) -> Option<&CpuSet> {
        self.core_of.get(&cpu)
    }

    /// Returns the cores, in the order of their first CPUs.
    pub fn cores(&self) -> impl Iterator<Item = &CpuSet> {
        self.core_of.iter().filter(|(cpu, core)| core.first() == Some(**cpu)).map(|(_, core)| core)
    }

    /// Returns the number of groups of a level that have at least one of these CPUs.
    pub fn spanned(&self, level: Level, cpus: &CpuSet) -> usize {
        self.groups(level).iter().filter(|group| group.intersects(cpus)).count()
    }

    /// Returns the nodes that have memory.
    pub fn memory_nodes(&self) -> NodeSet {
        self.nodes.iter().filter(|(_, node)| node.memory > 0).map(|(number, _)| *number).collect()
    }

    /// Returns the memory of nodes in bytes.
    pub fn memory_of(&self, nodes: &NodeSet) -> u64 {
        let memory = nodes.iter().filter_map(|number| Some(self.nodes.get(&number)?.memory));
        memory.fold(0, u64::saturating_add)
    }

    /// Returns the nodes that have one of these CPUs.
    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        let nodes = self.nodes.iter().filter(|(_, node)| node.cpus.intersects(cpus));
        nodes.map(|(number, _)| *number).collect()
    }

    /// Returns the distance between nodes. An unknown one is larger than any other.
    pub fn distance(&self, from: usize, to: usize) -> u32 {
        let known = |a, b| self.nodes.get(&a)?.distances.get(&b).copied();
        known(from, to).unwrap_or(if from == to { 10 } else { u32::MAX })
    }

    /// Returns the largest distance between the nodes of two groups of CPUs.
    pub fn distance_of(&self, from: &CpuSet, to: &CpuSet) -> u32 {
        let (from, to) = (self.nodes_of(from), self.nodes_of(to));
        let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (a, b)));
        pairs.map(|(a, b)| self.distance(a, b)).max().unwrap_or(0)
    }
}

/// Builds the tree from all groups that do not split a core and do not overlap a larger group.
fn tree(groups: &BTreeMap<Level, Vec<CpuSet>>, core_of: &BTreeMap<usize, CpuSet>) -> Vec<Domain> {
    let splits = |group: &CpuSet| {
        group.iter().filter_map(|cpu| core_of.get(&cpu)).any(|core| !core.is_subset(group))
    };
    let mut sorted: Vec<(Level, &CpuSet)> = groups
        .iter()
        .flat_map(|(level, groups)| groups.iter().map(|group| (*level, group)))
        .filter(|(_, group)| !splits(group))
        .collect();
    sorted.sort_by_key(|(level, group)| (usize::MAX - group.len(), *level, group.first()));
    let mut tree = Vec::<Domain>::new();
    for (level, cpus) in sorted {
        let mut at = None;
        loop {
            let candidates = match at {
                None => (0..tree.len().min(1)).collect(),
                Some(index) => {
                    let domain: &Domain = &tree[index];
                    domain.children.clone()
                }
            };
            match candidates.into_iter().find(|index| cpus.is_subset(&tree[*index].cpus)) {
                Some(index) => at = Some(index),
                None => break,
            }
        }
        let Some(parent) = at else {
            tree.push(Domain {
                levels: vec![level],
                cpus: cpus.clone(),
                children: Vec::new(),
                parent: None,
            });
            continue;
        };
        if tree[parent].cpus == *cpus {
            tree[parent].levels.push(level);
        } else if !tree[parent].children.iter().any(|child| tree[*child].cpus.intersects(cpus)) {
            let index = tree.len();
            tree[parent].children.push(index);
            tree.push(Domain {
                levels: vec![level],
                cpus: cpus.clone(),
                children: Vec::new(),
                parent: Some(parent),
            });
        }
    }
    tree
}
