//! Control groups of a container on this host: their directories, their threads, and whether they
//! are frozen.

use crate::host::{hierarchies, proc};
use nri_cgroup::{CgroupDirs, Controller, configured_path};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// Annotation of crun that names the group below a systemd scope.
const SUBGROUP_ANNOTATION: &str = "run.oci.systemd.subgroup";

/// Name of that group without the annotation.
const DEFAULT_SUBGROUP: &str = "container";

/// Returns `/proc/PID/cgroup`; empty for a process that has ended.
pub fn membership(pid: i32) -> String {
    proc::text(format!("/proc/{pid}/cgroup"))
}

/// Returns the directories of a container whose first process had this `membership` when it was
/// created. `path` and `annotations` are the container's; `systemd`: its runtime uses the systemd
/// cgroup driver.
pub fn locate(
    membership: &str,
    path: &str,
    systemd: bool,
    annotations: &HashMap<String, String>,
) -> CgroupDirs {
    let mut expected = configured_path(path, systemd);
    if let Some(scope) = expected.as_mut().filter(|_| systemd) {
        // crun with cgroup version 2 puts the process, and the limits that it does not pass to
        // systemd, into a group below the scope.
        let subgroup =
            annotations.get(SUBGROUP_ANNOTATION).map_or(DEFAULT_SUBGROUP, String::as_str);
        let below = scope.join(subgroup);
        if is_member_of(membership, &below) {
            *scope = below;
        }
    }
    CgroupDirs::of_process(&hierarchies::mounted(), membership, expected.as_deref())
}

/// Whether a process is in the group `path`, or in one below it, in any hierarchy.
fn is_member_of(membership: &str, path: &Path) -> bool {
    let paths = membership.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(Path::new).any(|at| at.starts_with(path))
}

/// Whether a container is paused. Runtimes pause through the freezer, and NRI has no event for it.
pub fn is_paused(dirs: &CgroupDirs) -> bool {
    let read = |file: PathBuf| fs::read_to_string(file).unwrap_or_default();
    match (dirs.v1(Controller::Freezer), dirs.v2(Controller::Freezer)) {
        (Some(dir), _) => matches!(read(dir.join("freezer.state")).trim(), "FROZEN" | "FREEZING"),
        (None, Some(dir)) => read(dir.join("cgroup.events")).lines().any(|line| line == "frozen 1"),
        (None, None) => false,
    }
}

/// Returns the threads in a container's control groups and in the groups below them.
pub fn threads(dirs: &CgroupDirs) -> Vec<i32> {
    // All hierarchies hold the same threads.
    let Some(dir) = dirs.dirs().into_iter().find(|dir| dir.is_dir()) else { return Vec::new() };
    let (mut threads, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        // Version 2 and version 1.
        let text = ["cgroup.threads", "tasks"]
            .iter()
            .find_map(|name| fs::read_to_string(dir.join(name)).ok());
        threads.extend(
            text.unwrap_or_default().lines().filter_map(|line| line.trim().parse::<i32>().ok()),
        );
        let below = fs::read_dir(&dir).into_iter().flatten().flatten();
        dirs.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership_includes_groups_below_the_path() {
        let is_member =
            |membership: &str| is_member_of(membership, Path::new("/a.slice/b-c.scope/container"));
        assert!(is_member("0::/a.slice/b-c.scope/container\n"));
        assert!(is_member("0::/a.slice/b-c.scope/container/init\n"));
        assert!(!is_member("0::/a.slice/b-c.scope\n"));
        assert!(!is_member("2:cpu:/a.slice/b-c.scope\n0::/a.slice/b-c.scope/other\n"));
        assert!(!is_member(""));
    }
}
