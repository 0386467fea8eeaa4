//! Measures the CPU time of life cycles, which is the CPU time of a cgroup that contains the
//! containers, this process, and `nrid` with its plugins.

use nri_integration::{Process, is_cgroup_v2};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The cgroup of this run. Dropping this value removes the cgroup from all hierarchies.
pub(crate) struct Cgroup(String);

impl Cgroup {
    /// Names the cgroup after this process; runtimes create it.
    pub(crate) fn new() -> Self {
        Self(format!("nri-bench-{}", std::process::id()))
    }

    /// Parent of the containers' cgroups, for `linux.cgroupsPath`.
    pub(crate) fn containers(&self) -> String {
        format!("/{}/containers", self.0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).into_iter().flatten().flatten();
        for dir in hierarchies.map(|entry| entry.path()).chain([root.to_owned()]) {
            remove(&dir.join(&self.0));
        }
    }
}

/// Removes a cgroup and its descendants, which remain if a measurement was interrupted.
fn remove(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    // The cgroup may not exist in this hierarchy.
    let _ = fs::remove_dir(dir);
}

/// Accounting of the cgroup's CPU time. Dropping this value moves the processes to the root cgroup.
pub(crate) struct Accounting {
    root: &'static Path,
    dir: PathBuf,
}

impl Accounting {
    /// Moves this process into a child of the cgroup: with cgroup v2, containers cannot be below a
    /// cgroup that has processes.
    pub(crate) fn start(cgroup: &Cgroup) -> Self {
        let root =
            Path::new(if is_cgroup_v2() { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpuacct" });
        let accounting = Self { root, dir: root.join(&cgroup.0) };
        fs::create_dir_all(accounting.dir.join("main")).expect("root can create cgroups");
        accounting.enter(std::process::id());
        accounting
    }

    fn enter(&self, pid: u32) {
        let file = self.dir.join("main/cgroup.procs");
        fs::write(&file, pid.to_string()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    /// Moves a process and its children, such as `nrid` and its plugins, into the cgroup.
    pub(crate) fn enter_with_children(&self, pid: u32) {
        self.enter(pid);
        let children = Process::all().into_iter().filter(|other| other.parent() == Some(pid));
        children.for_each(|child| self.enter(child.0));
    }

    /// CPU time so far, in microseconds.
    pub(crate) fn cpu(&self) -> f64 {
        let read = |name: &str| fs::read_to_string(self.dir.join(name)).expect("a cgroup's file");
        let number = |text: &str| text.trim().parse::<f64>().expect("a number");
        if !is_cgroup_v2() {
            return number(&read("cpuacct.usage")) / 1e3;
        }
        let text = read("cpu.stat");
        number(text.lines().find_map(|line| line.strip_prefix("usage_usec ")).expect("usage_usec"))
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.dir.join("main/cgroup.procs")).unwrap_or_default();
        for pid in processes.lines() {
            // A process may have ended meanwhile.
            let _ = fs::write(self.root.join("cgroup.procs"), pid);
        }
    }
}
