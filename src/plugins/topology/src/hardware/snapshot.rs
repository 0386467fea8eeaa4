//! Snapshot of the files of sysfs that describe CPUs and memory nodes, and its form as text.
//!
//! The text has a line for each file, and one line for files of several CPUs that are equal:
//! `system/cpu/cpu{0-1}/topology/core_cpus_list: 0-1`. `nri-topology snapshot` prints it, for
//! reports of problems and for tests. The meaning of the files is in `sysfs.rs`.

use crate::hardware::{cpuset::CpuSet, interrupts::serving};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
    str::FromStr,
};

/// Files of CPUs that are read, below `system/cpu/cpuN`.
const FILES_OF_CPUS: &[&str] = &[
    "topology/package_cpus_list",
    "topology/core_siblings_list",
    "topology/core_siblings",
    "topology/die_cpus_list",
    "topology/cluster_cpus_list",
    "topology/core_cpus_list",
    "topology/thread_siblings_list",
    "topology/thread_siblings",
    "cpu_capacity",
    "acpi_cppc/nominal_perf",
];

/// Files that are read once. Those in `cpu_core` and `cpu_atom` exist on hybrid Intel processors.
const FILES_OF_MACHINES: &[&str] =
    &["cpu_core/cpus", "cpu_atom/cpus", "system/cpu/online", "system/cpu/isolated"];

/// Files of memory nodes, below `system/node/nodeN`. Of `meminfo`, only the size is kept.
const FILES_OF_NODES: &[&str] = &["cpulist", "cpumap", "distance", "meminfo"];

/// Files of a cache of level 3, below `system/cpu/cpuN/cache/indexM`. In a snapshot, M is always 3.
const FILES_OF_CACHES: &[&str] = &["shared_cpu_list", "shared_cpu_map"];

/// Where the running machine has these files. Any other directory is that of another machine.
const DEVICES: &str = "/sys/devices";

/// Where it counts interrupts. A snapshot has only the CPUs that serve most of those of devices.
const INTERRUPTS: &str = "/proc/interrupts";

/// Name of that set of CPUs in a snapshot.
pub(crate) const SERVING: &str = "interrupts";

/// Files and their contents, by paths below `/sys/devices`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    files: BTreeMap<String, String>,
}

/// Line of a snapshot that is not of the form `PATH: CONTENT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the snapshot is not \"PATH: CONTENT\": {text:?}")]
pub struct WrongLine {
    line: usize,
    text: String,
}

impl Snapshot {
    /// Reads the files below `devices`, which is `/sys/devices` on a running machine. Files that
    /// cannot be read are missing from the snapshot: which exist depends on processor and kernel.
    pub fn read(devices: &Path) -> Self {
        let mut snapshot = Self::default();
        for file in FILES_OF_MACHINES {
            snapshot.add(&devices.join(file), (*file).to_owned());
        }
        for cpu in numbered(devices, "system/cpu", "cpu") {
            // Of a list and a mask with the same meaning, and of the old and the new name of a
            // file, one is enough. They follow each other in the table.
            let mut groups = BTreeSet::new();
            for file in FILES_OF_CPUS {
                let path = format!("{cpu}/{file}");
                if !groups.contains(&group_of(file)) && snapshot.add(&devices.join(&path), path) {
                    groups.insert(group_of(file));
                }
            }
            for cache in numbered(devices, &format!("{cpu}/cache"), "index") {
                let level = fs::read_to_string(devices.join(&cache).join("level"));
                if level.is_ok_and(|level| level.trim() == "3") {
                    // The mask is added only if there is no list.
                    let _ = FILES_OF_CACHES.iter().any(|file| {
                        let path = format!("{cpu}/cache/index3/{file}");
                        snapshot.add(&devices.join(&cache).join(file), path)
                    });
                }
            }
        }
        for node in numbered(devices, "system/node", "node") {
            for file in FILES_OF_NODES {
                if *file != "cpumap" || fs::metadata(devices.join(&node).join("cpulist")).is_err() {
                    snapshot.add(&devices.join(&node).join(file), format!("{node}/{file}"));
                }
            }
        }
        if devices == Path::new(DEVICES) {
            let text = fs::read_to_string(INTERRUPTS).unwrap_or_default();
            let serving = serving(&text);
            if !serving.is_empty() {
                snapshot.files.insert(SERVING.to_owned(), serving.to_string());
            }
        }
        snapshot
    }

    /// Adds the content of a file. Returns whether there is one.
    fn add(&mut self, file: &Path, path: String) -> bool {
        let text = fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace('\0', "");
        let text = text.trim();
        let text = if path.ends_with("/meminfo") {
            text.lines().find(|line| line.contains("MemTotal")).unwrap_or_default()
        } else {
            text
        };
        let is_there = !text.is_empty();
        if is_there {
            self.files.insert(path, text.to_owned());
        }
        is_there
    }

    /// Returns the content of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns the numbers of the directories `PREFIXnumber`, such as `system/cpu/cpu`.
    pub fn numbers(&self, prefix: &str) -> CpuSet {
        let files = self.files.range(prefix.to_owned()..);
        let files = files.map_while(|(path, _)| path.strip_prefix(prefix));
        files.filter_map(|rest| rest.split_once('/')?.0.parse().ok()).collect()
    }
}

/// Returns the directories `NAMEnumber` in a directory, by their paths below `devices`.
fn numbered(devices: &Path, directory: &str, name: &str) -> Vec<String> {
    let entries = fs::read_dir(devices.join(directory)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_numbered = |entry: &String| {
        let number = entry.strip_prefix(name).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    names.filter(is_numbered).map(|entry| format!("{directory}/{entry}")).collect()
}

/// Returns the first file of the table that has the same meaning.
fn group_of(file: &'static str) -> &'static str {
    match file {
        "topology/core_siblings_list" | "topology/core_siblings" => "topology/package_cpus_list",
        "topology/thread_siblings_list" | "topology/thread_siblings" => "topology/core_cpus_list",
        file => file,
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut folded = BTreeMap::<(&str, &str), CpuSet>::new();
        for (path, content) in &self.files {
            let of_cpu = path.strip_prefix("system/cpu/cpu").and_then(|rest| rest.split_once('/'));
            match of_cpu.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
                Some((cpu, rest)) => folded.entry((rest, content)).or_default().insert(cpu),
                None => writeln!(f, "{path}: {content}")?,
            }
        }
        let mut folded: Vec<_> = folded.into_iter().collect();
        folded.sort_by_key(|((file, _), cpus)| (*file, cpus.first()));
        for ((file, content), cpus) in folded {
            writeln!(f, "system/cpu/cpu{{{cpus}}}/{file}: {content}")?;
        }
        Ok(())
    }
}

impl FromStr for Snapshot {
    type Err = WrongLine;

    fn from_str(text: &str) -> Result<Self, WrongLine> {
        let mut snapshot = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || WrongLine { line: index + 1, text: line.to_owned() };
            let (path, content) = line.split_once(": ").ok_or_else(wrong)?;
            let mut add = |path: String| snapshot.files.insert(path, content.trim().to_owned());
            match path.split_once('{').and_then(|(a, rest)| Some((a, rest.split_once('}')?))) {
                None => _ = add(path.to_owned()),
                Some((before, (numbers, after))) => {
                    let numbers: CpuSet = numbers.parse().map_err(|_| wrong())?;
                    numbers.iter().for_each(|n| _ = add(format!("{before}{n}{after}")));
                }
            }
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_snapshot_is_read_again() {
        let text = "system/cpu/online: 0-3\nsystem/node/node0/meminfo: Node 0 MemTotal: 1 kB\n\
                    system/cpu/cpu{0,2}/cpu_capacity: 1024\nsystem/cpu/cpu{1,3}/cpu_capacity: 5\n";
        let snapshot: Snapshot = text.parse().unwrap();
        assert_eq!(snapshot.get("system/cpu/cpu2/cpu_capacity"), Some("1024"));
        assert_eq!(snapshot.numbers("system/cpu/cpu").to_string(), "0-3");
        assert_eq!(snapshot.to_string(), text);
        assert_eq!("# a\n\nb".parse::<Snapshot>().unwrap_err().line, 3);
        assert_eq!("a{x}b: 1".parse::<Snapshot>().unwrap_err().line, 1);
    }

    #[test]
    fn files_are_read_below_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("system/cpu/online", "0\n");
        write("system/cpu/cpufreq/boost", "1\n");
        write("system/cpu/cpu0/topology/thread_siblings", "1\n");
        write("system/cpu/cpu0/topology/thread_siblings_list", "0\n");
        write("system/cpu/cpu0/cache/index2/level", "2\n");
        write("system/cpu/cpu0/cache/index2/shared_cpu_list", "0\n");
        write("system/cpu/cpu0/cache/index4/level", "3\n");
        write("system/cpu/cpu0/cache/index4/shared_cpu_map", "1\n");
        write("system/node/node0/cpumap", "1\n");
        write("system/node/node0/meminfo", "\nNode 0 MemTotal: 7 kB\nNode 0 MemFree: 1 kB\n");
        let expected = "system/cpu/online: 0\nsystem/node/node0/cpumap: 1\n\
                        system/node/node0/meminfo: Node 0 MemTotal: 7 kB\n\
                        system/cpu/cpu{0}/cache/index3/shared_cpu_map: 1\n\
                        system/cpu/cpu{0}/topology/thread_siblings_list: 0\n";
        assert_eq!(Snapshot::read(directory.path()).to_string(), expected);
    }
}
