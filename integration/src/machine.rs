//! Properties of this machine: user, cgroups, kernel.

use std::path::{Path, PathBuf};

/// Global options that select a runtime's cgroup driver: systemd if `NRI_TEST_SYSTEMD` is set, else
/// cgroupfs.
pub(crate) fn cgroup_driver() -> &'static [&'static str] {
    if uses_systemd() { &["--systemd-cgroup"] } else { &[] }
}

/// Whether systemd creates the cgroups of the tests' containers.
pub fn uses_systemd() -> bool {
    std::env::var_os("NRI_TEST_SYSTEMD").is_some()
}

/// Whether the tests run as root, which the runtimes need.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this machine has only cgroup v2.
pub fn is_cgroup_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// Directory of all cgroups: with cgroup v1, of those of a controller.
pub fn cgroup_root(controller: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(if is_cgroup_v2() { "" } else { controller })
}

/// Whether the cpuset controller is available.
pub fn has_cpusets() -> bool {
    let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    !is_cgroup_v2() || v2.split_whitespace().any(|c| c == "cpuset")
}

/// Returns the device node of a disk of this machine. Block I/O limits need a disk, not a
/// partition.
pub fn disk() -> Option<String> {
    let names = std::fs::read_dir("/sys/block")
        .ok()?
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names.map(|name| format!("/dev/{name}")).find(|path| std::fs::exists(path).unwrap_or_default())
}

/// Whether the kernel reports the exit code of a process to processes other than its parent:
/// through a pidfd, since Linux 6.15, unless the program `before-6-15` runs this test.
pub fn kernel_reports_exit_codes() -> bool {
    if std::env::var_os("NRI_BEFORE_6_15").is_some() {
        return false;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// `linux.cgroupsPath` of a container for the cgroup driver in use.
pub(crate) fn cgroups_path(prefix: &str, id: &str) -> String {
    match (uses_systemd(), prefix) {
        (true, "") => format!("system.slice:nri:{id}"),
        (true, _) => format!("{prefix}.slice:nri:{id}"),
        (false, "") => format!("/{id}"),
        (false, _) => format!("/{prefix}/{id}"),
    }
}

/// Directory of a container's cgroup, relative to the root of a hierarchy.
pub(crate) fn cgroup_below_root(prefix: &str, id: &str) -> String {
    if uses_systemd() { format!("{prefix}.slice/nri-{id}.scope") } else { format!("{prefix}/{id}") }
}
