//! The mounted hierarchies, from the text of `/proc/PID/mountinfo`.

use std::path::{Path, PathBuf};

/// A mount that shows a hierarchy from its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// Version 1 or 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Version 1, with the options that name its controllers (`cpu`, `memory`, `name=systemd` …)
    /// among others.
    V1(Vec<String>),
    /// Version 2.
    V2,
}

/// All of them. Mounts that show only a part of a hierarchy (a container's) are left out: their
/// root is not the hierarchy's.
pub fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Hierarchy> {
    // «id parent device root point options [optional…] - type source super-options»: proc(5)
    let (left, right) = line.split_once(" - ")?;
    let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
    if *left.get(3)? != "/" {
        return None;
    }
    let kind = match *right.first()? {
        "cgroup2" => Kind::V2,
        "cgroup" => Kind::V1(right.get(2)?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Hierarchy { path: Path::new(left.get(4)?).to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_cgroup_hierarchies() {
        let mountinfo = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:39 /docker/x /mnt rw - cgroup cgroup rw,memory
44 31 0:41 / /proc rw - proc proc rw
broken - cgroup2
";
        let cpu = Kind::V1(["rw", "cpu", "cpuacct"].map(str::to_owned).to_vec());
        let expected = [("/sys/fs/cgroup/cpu", cpu), ("/sys/fs/cgroup/unified", Kind::V2)]
            .map(|(path, kind)| Hierarchy { path: path.into(), kind });
        assert_eq!(hierarchies(mountinfo), expected);
    }
}
