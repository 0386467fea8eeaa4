//! Machines from snapshots of sysfs: what its files mean, with the names of old and new kernels.

use crate::hardware::{
    cpuset::CpuSet,
    machine::{Level, Machine, Node, Parts},
    snapshot::{SERVING, Snapshot},
};
use std::collections::BTreeMap;

/// Snapshot from which no machine can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SysfsError {
    /// It has no CPUs.
    #[error("sysfs has no CPUs: is /sys mounted?")]
    NoCpus,
    /// A file has no set of CPUs.
    #[error("/sys/devices/{path} has no CPUs: {content:?}")]
    NoList {
        /// Path below `/sys/devices`.
        path: String,
        /// Its content.
        content: String,
    },
}

/// A level, and the files that have the CPUs of its groups: one of them is enough.
const LEVELS: &[(Level, &[&str])] = &[
    (
        Level::Package,
        &["topology/package_cpus_list", "topology/core_siblings_list", "topology/core_siblings"],
    ),
    (Level::Die, &["topology/die_cpus_list"]),
    (Level::Cluster, &["topology/cluster_cpus_list"]),
    (
        Level::Core,
        &["topology/core_cpus_list", "topology/thread_siblings_list", "topology/thread_siblings"],
    ),
    (Level::L3, &["cache/index3/shared_cpu_list", "cache/index3/shared_cpu_map"]),
];

/// Makes a machine from a snapshot.
///
/// # Errors
/// If the snapshot has no CPUs, or a file has an unknown form.
pub fn machine(snapshot: &Snapshot) -> Result<Machine, SysfsError> {
    let numbers = snapshot.numbers("system/cpu/cpu");
    let path = |cpu: usize, file: &str| format!("system/cpu/cpu{cpu}/{file}");
    // Kernels without the list of online CPUs have no topology of CPUs that are offline.
    let has_topology = |cpu: &usize| {
        let mut files = LEVELS.iter().flat_map(|(_, files)| *files);
        files.any(|file| snapshot.get(&path(*cpu, file)).is_some())
    };
    let cpus = match set(snapshot, "system/cpu/online")? {
        Some(online) => online,
        None => numbers.iter().filter(has_topology).collect(),
    };
    if cpus.is_empty() {
        return Err(SysfsError::NoCpus);
    }
    let mut groups = Vec::new();
    for (level, files) in LEVELS {
        for cpu in cpus.iter() {
            for file in *files {
                if let Some(group) = set(snapshot, &path(cpu, file))? {
                    groups.push((*level, group));
                    break;
                }
            }
        }
        groups.dedup();
    }
    Ok(Machine::new(Parts {
        isolated: set(snapshot, "system/cpu/isolated")?.unwrap_or_default(),
        serving: set(snapshot, SERVING)?.unwrap_or_default(),
        nodes: nodes(snapshot, &cpus)?,
        kinds: kinds(snapshot, &cpus)?,
        groups,
        cpus,
    }))
}

/// Returns the set of CPUs in a list, or in a mask if the file is one.
fn set(snapshot: &Snapshot, path: &str) -> Result<Option<CpuSet>, SysfsError> {
    let Some(content) = snapshot.get(path) else { return Ok(None) };
    let is_mask = ["siblings", "_map", "cpumap"].iter().any(|end| path.ends_with(end));
    let set = if is_mask { CpuSet::from_mask(content) } else { content.parse() };
    let wrong = |_| SysfsError::NoList { path: path.to_owned(), content: content.to_owned() };
    set.map(Some).map_err(wrong)
}

/// Returns the memory nodes. A kernel without NUMA has none: then all CPUs have one node, 0, whose
/// size is unknown and counts as unlimited.
fn nodes(snapshot: &Snapshot, cpus: &CpuSet) -> Result<BTreeMap<usize, Node>, SysfsError> {
    let numbers = snapshot.numbers("system/node/node");
    let mut nodes = BTreeMap::new();
    for number in numbers.iter() {
        let path = |file: &str| format!("system/node/node{number}/{file}");
        let list = set(snapshot, &path("cpulist"))?;
        let list = if list.is_some() { list } else { set(snapshot, &path("cpumap"))? };
        let size = snapshot.get(&path("meminfo")).and_then(|line| {
            line.split_whitespace().rev().find_map(|word| word.parse::<u64>().ok())
        });
        // The columns are the nodes that are online, in ascending order.
        let distances = snapshot.get(&path("distance")).unwrap_or_default();
        let distances = distances.split_whitespace().map_while(|word| word.parse().ok());
        let node = Node {
            cpus: list.unwrap_or_default(),
            memory: size.unwrap_or(0).saturating_mul(1024),
            distances: numbers.iter().zip(distances).collect(),
        };
        nodes.insert(number, node);
    }
    if nodes.values().all(|node| node.memory == 0) {
        let all = Node { cpus: cpus.clone(), memory: u64::MAX, distances: BTreeMap::new() };
        nodes.insert(0, all);
    }
    Ok(nodes)
}

/// Returns the kinds of cores, the fastest first: those that the kernel names on hybrid Intel
/// processors, otherwise CPUs by their capacity. The nominal performance of ACPI is the last
/// resort: unlike the highest one, it does not differ between cores of one kind.
fn kinds(snapshot: &Snapshot, cpus: &CpuSet) -> Result<Vec<CpuSet>, SysfsError> {
    let named = [set(snapshot, "cpu_core/cpus")?, set(snapshot, "cpu_atom/cpus")?];
    if let [Some(core), Some(atom)] = named {
        return Ok(vec![core.and(cpus), atom.and(cpus)]);
    }
    for file in ["cpu_capacity", "acpi_cppc/nominal_perf"] {
        let mut by_speed = BTreeMap::<u64, CpuSet>::new();
        for cpu in cpus.iter() {
            let speed = snapshot.get(&format!("system/cpu/cpu{cpu}/{file}"));
            let speed = speed.and_then(|text| text.parse().ok()).unwrap_or(0);
            by_speed.entry(speed).or_default().insert(cpu);
        }
        if by_speed.len() > 1 && !by_speed.contains_key(&0) {
            return Ok(by_speed.into_values().rev().collect());
        }
    }
    Ok(vec![cpus.clone()])
}
