//! Mounted cgroup hierarchies, parsed from `/proc/PID/mountinfo`.

use std::path::{Path, PathBuf};

/// A mount of a whole hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Mount point.
    pub path: PathBuf,
    /// Version, and what it has.
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

/// Parses the text of `/proc/PID/mountinfo`. Mounts of a part of a hierarchy, such as that of a
/// container, are skipped: paths do not begin at their root.
pub fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Hierarchy> {
    // id parent device root point options [optional…] - type source super-options: proc(5)
    let (left, right) = line.split_once(" - ")?;
    let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
    if *left.get(3)? != "/" {
        return None;
    }
    let kind = match *right.first()? {
        "cgroup2" => HierarchyKind::V2,
        "cgroup" => HierarchyKind::V1(right.get(2)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Hierarchy { path: Path::new(left.get(4)?).to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_parts_of_a_hierarchy_are_skipped() {
        let mountinfo = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:39 /docker/x /mnt rw - cgroup cgroup rw,memory
44 31 0:41 / /proc rw - proc proc rw
broken - cgroup2
";
        let cpu = HierarchyKind::V1(["rw", "cpu", "cpuacct"].map(str::to_owned).to_vec());
        let expected = [("/sys/fs/cgroup/cpu", cpu), ("/sys/fs/cgroup/unified", HierarchyKind::V2)]
            .map(|(path, kind)| Hierarchy { path: path.into(), kind });
        assert_eq!(hierarchies(mountinfo), expected);
    }
}
