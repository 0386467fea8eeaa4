//! Mounted cgroup hierarchies.

use std::path::{Path, PathBuf};

/// A mount of a whole hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Mount point.
    pub path: PathBuf,
    /// Version, with the controllers of cgroup v1.
    pub kind: HierarchyKind,
}

/// The version of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HierarchyKind {
    /// cgroup v1, with its mount options, which name the controllers (`cpu`, `memory`,
    /// `name=systemd`, …).
    V1(Vec<String>),
    /// cgroup v2.
    V2,
}

impl Hierarchy {
    /// Returns the hierarchy of a mount with these fields of `/proc/PID/mountinfo`; `None` if the
    /// mount is not a cgroup hierarchy. Mounts of a part of a hierarchy, such as the cgroup mounts
    /// of containers, are skipped, since the paths of cgroups do not begin at the root of such a
    /// mount.
    pub fn of_mount(root: &Path, point: &Path, fs_type: &str, super_options: &str) -> Option<Self> {
        let kind = match fs_type {
            "cgroup2" => HierarchyKind::V2,
            "cgroup" => HierarchyKind::V1(super_options.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        (root == Path::new("/")).then(|| Self { path: point.to_owned(), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_parts_of_a_hierarchy_are_skipped() {
        let check = |root: &str, fs_type: &str, kind: Option<HierarchyKind>| {
            let point = Path::new("/sys/fs/cgroup/x");
            let expected = kind.map(|kind| Hierarchy { path: point.to_owned(), kind });
            assert_eq!(
                Hierarchy::of_mount(Path::new(root), point, fs_type, "rw,cpu,cpuacct"),
                expected
            );
        };
        let cpu = HierarchyKind::V1(["rw", "cpu", "cpuacct"].map(str::to_owned).to_vec());
        check("/", "cgroup", Some(cpu));
        check("/", "cgroup2", Some(HierarchyKind::V2));
        check("/docker/x", "cgroup", None);
        check("/", "proc", None);
    }
}
