//! Machines, as directories with the files of sysfs that the plugins read.

use nri_topology::hardware::{
    cpuset::CpuSet,
    machine::{Level, Machine},
    snapshot::Snapshot,
    sysfs,
};
use std::{fs, path::Path};
use tempfile::TempDir;

/// Fewest CPUs of a machine on which placement is worth a measurement.
const FEWEST: usize = 16;

/// CPUs that no container gets, in all policies.
pub(crate) const RESERVED: &str = "0";

/// A machine, and a directory with its files below `sys`.
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) machine: Machine,
    pub(crate) root: TempDir,
}

/// Returns the machines by name.
pub(crate) fn all() -> Vec<Tree> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tests.join("../src/plugins/topology/tests/topologies");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut trees: Vec<Tree> = files
        .filter_map(|file| {
            let snapshot: Snapshot = fs::read_to_string(&file).unwrap().parse().unwrap();
            let machine = sysfs::machine(&snapshot).unwrap();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            (machine.cpus.len() >= FEWEST).then(|| Tree::new(name, machine))
        })
        .collect();
    trees.sort_by_key(|tree| tree.machine.cpus.len());
    assert!(trees.len() >= 6, "only {} machines", trees.len());
    trees
}

/// Returns the group of a level that has a CPU, and its index.
fn group(machine: &Machine, level: Level, cpu: usize) -> Option<(usize, &CpuSet)> {
    machine.groups(level).iter().enumerate().find(|(_, group)| group.contains(cpu))
}

impl Tree {
    fn new(name: String, machine: Machine) -> Self {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("sys/devices");
        write_cpus(&devices, &machine);
        write_nodes(&devices, &machine);
        // `balloons` refuses to start without it.
        write(&root.path().join("proc"), "interrupts", "");
        let read = sysfs::machine(&Snapshot::read(&devices)).unwrap();
        assert_eq!(read, machine, "{name}: the files describe another machine");
        Self { name, machine, root }
    }
}

fn write(directory: &Path, file: &str, content: impl ToString) {
    let file = directory.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content.to_string() + "\n").unwrap();
}

fn write_cpus(devices: &Path, machine: &Machine) {
    let all = devices.join("system/cpu");
    for file in ["online", "present", "possible"] {
        write(&all, file, &machine.cpus);
    }
    write(&all, "isolated", &machine.isolated);
    if let [fast, slow] = &machine.kinds[..] {
        write(devices, "cpu_core/cpus", fast);
        write(devices, "cpu_atom/cpus", slow);
    }
    for cpu in machine.cpus.iter() {
        let directory = all.join(format!("cpu{cpu}"));
        let topology = directory.join("topology");
        let core = machine.cores_of(&CpuSet::from_iter([cpu]));
        let is_first = |core: &CpuSet| core.contains(cpu);
        write(&topology, "core_id", machine.cores().position(is_first).unwrap());
        write(&topology, "core_cpus_list", &core);
        write(&topology, "thread_siblings_list", &core);
        let groups = [
            (Level::Package, "physical_package_id", "package_cpus_list"),
            (Level::Die, "die_id", "die_cpus_list"),
            (Level::Cluster, "cluster_id", "cluster_cpus_list"),
        ];
        for (level, id, list) in groups {
            let found = group(machine, level, cpu);
            // Kernels without a level give all of its groups the number 0, and no list.
            write(&topology, id, found.map_or(0, |(index, _)| index));
            if let Some((_, group)) = found {
                write(&topology, list, group);
            }
        }
        write_frequencies(&directory, machine, cpu);
        let numbers = machine.nodes.iter().filter(|(_, node)| node.cpus.contains(cpu));
        for (number, _) in numbers {
            fs::create_dir(directory.join(format!("node{number}"))).unwrap();
        }
        // The topologies have caches of level 3 alone. Those of level 2 are of cores, but for
        // clusters of hybrid processors.
        let is_clustered = machine.kinds.len() > 1 && !machine.groups(Level::Cluster).is_empty();
        let level_2 = if is_clustered { Level::Cluster } else { Level::Core };
        let caches = [(2, level_2, "1024K"), (3, Level::L3, "32768K")];
        for (number, level, size) in caches {
            let Some((index, group)) = group(machine, level, cpu) else { continue };
            let cache = directory.join(format!("cache/index{number}"));
            write(&cache, "id", index);
            write(&cache, "level", number);
            write(&cache, "type", "Unified");
            write(&cache, "size", size);
            write(&cache, "shared_cpu_list", group);
        }
    }
}

/// Writes the frequencies of a CPU of a hybrid processor: those of the machine with 20 CPUs. All
/// other machines have none.
fn write_frequencies(directory: &Path, machine: &Machine, cpu: usize) {
    let [fast, _] = &machine.kinds[..] else { return };
    let is_fast = fast.contains(cpu);
    let (base, max) = if is_fast { (1_900_000, 5_000_000) } else { (1_400_000, 3_900_000) };
    let directory = directory.join("cpufreq");
    write(&directory, "base_frequency", base);
    write(&directory, "cpuinfo_min_freq", 400_000);
    write(&directory, "cpuinfo_max_freq", max);
    write(&directory, "energy_performance_preference", "balance_performance");
}

fn write_nodes(devices: &Path, machine: &Machine) {
    let all = devices.join("system/node");
    let numbers: CpuSet = machine.nodes.keys().copied().collect();
    for file in ["online", "possible"] {
        write(&all, file, &numbers);
    }
    for file in ["has_memory", "has_normal_memory"] {
        write(&all, file, machine.memory_nodes());
    }
    for (number, node) in &machine.nodes {
        let directory = all.join(format!("node{number}"));
        let distances: Vec<String> = node.distances.values().map(ToString::to_string).collect();
        let size = node.memory / 1024;
        write(&directory, "cpulist", &node.cpus);
        write(&directory, "distance", distances.join(" "));
        let line = |key: &str| format!("Node {number} {key}: {size} kB\n");
        write(&directory, "meminfo", line("MemTotal") + &line("MemFree"));
    }
}
