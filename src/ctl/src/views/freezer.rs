//! Paused containers. Runtimes pause through the freezer, without an event that `nrid` would see.

use nri_control::{CgroupPaths, ContainerSummary};
use std::{fs, path::PathBuf};

/// Returns the state of a container: that of `nrid`, or `paused`.
pub(crate) fn state(container: &ContainerSummary) -> &str {
    let is_paused = container.state == "running" && is_paused(&container.cgroups);
    if is_paused { "paused" } else { &container.state }
}

fn is_paused(cgroups: &CgroupPaths) -> bool {
    let read = |file: PathBuf| fs::read_to_string(file).unwrap_or_default();
    match (cgroups.v1.get("freezer"), &cgroups.v2) {
        (Some(dir), _) => {
            let state = read(dir.as_path().join("freezer.state"));
            matches!(state.trim(), "FROZEN" | "FREEZING")
        }
        (None, Some(dir)) => {
            read(dir.as_path().join("cgroup.events")).lines().any(|line| line == "frozen 1")
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::OsText;

    #[test]
    fn a_frozen_cgroup_is_a_paused_container_in_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let path = OsText::from(dir.path());
        let v1 = CgroupPaths { v1: [("freezer".to_owned(), path.clone())].into(), v2: None };
        let v2 = CgroupPaths { v2: Some(path), ..CgroupPaths::default() };
        let container = |state: &str, cgroups: &CgroupPaths| ContainerSummary {
            state: state.to_owned(),
            cgroups: cgroups.clone(),
            ..ContainerSummary::default()
        };
        assert_eq!(state(&container("running", &v1)), "running");
        fs::write(dir.path().join("freezer.state"), "FROZEN\n").unwrap();
        fs::write(dir.path().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        assert_eq!(state(&container("running", &v1)), "paused");
        assert_eq!(state(&container("running", &v2)), "paused");
        assert_eq!(state(&container("stopped", &v2)), "stopped");
        assert_eq!(state(&container("running", &CgroupPaths::default())), "running");
    }
}
