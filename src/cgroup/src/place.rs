//! Where a container's control groups are.

use crate::{Controller, Hierarchy, Kind, path_in, scope_path};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The directories of a container: in each hierarchy of version 1 that has a controller, else in
/// that of version 2.
///
/// Where both versions are mounted, a controller is in one of them: what no hierarchy of version 1
/// has is looked for in version 2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    v1: BTreeMap<Controller, PathBuf>,
    v2: Option<PathBuf>,
}

impl Place {
    /// From `/proc/PID/cgroup` of its first process. Processes may have been moved further down by
    /// the container itself: `expected`, the path below the hierarchies' roots, counts where it is
    /// above.
    pub fn of_process(hierarchies: &[Hierarchy], cgroup: &str, expected: Option<&Path>) -> Self {
        Self::with(hierarchies, |hierarchy| {
            let path = Path::new(path_in(cgroup, hierarchy)?);
            Some(expected.filter(|expected| path.starts_with(expected)).unwrap_or(path))
        })
    }

    /// From the path below the hierarchies' roots alone: an absolute one, the same in all.
    pub fn of_path(hierarchies: &[Hierarchy], path: &Path) -> Self {
        Self::with(hierarchies, |_| Some(path))
    }

    fn with<'a>(hierarchies: &[Hierarchy], path: impl Fn(&Hierarchy) -> Option<&'a Path>) -> Self {
        let mut place = Self::default();
        for hierarchy in hierarchies {
            let Some(path) = path(hierarchy) else { continue };
            let dir = hierarchy.path.join(path.strip_prefix("/").unwrap_or(path));
            match &hierarchy.kind {
                Kind::V2 => place.v2 = Some(dir),
                Kind::V1(options) => {
                    for controller in Controller::ALL {
                        if options.iter().any(|o| o == controller.name()) {
                            place.v1.insert(controller, dir.clone());
                        }
                    }
                }
            }
        }
        place
    }

    /// The directory of version 1 that holds a controller's files.
    pub fn v1(&self, controller: Controller) -> Option<&Path> {
        self.v1.get(&controller).map(PathBuf::as_path)
    }

    /// The directory of version 2, unless a hierarchy of version 1 has the controller.
    pub fn v2(&self, controller: Controller) -> Option<&Path> {
        if self.v1.contains_key(&controller) { None } else { self.v2.as_deref() }
    }

    /// The directory of version 2, if containers are in it, and not in a hybrid of both.
    pub fn unified(&self) -> Option<&Path> {
        if self.v1.is_empty() { self.v2.as_deref() } else { None }
    }

    /// All directories, each once.
    pub fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<_> = self.v1.values().chain(&self.v2).map(PathBuf::as_path).collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs
    }
}

/// The path below the hierarchies' roots that `linux.cgroupsPath` stands for; none for an empty or
/// a relative one, whose place depends on the runtime's own.
pub(crate) fn expected(cgroups_path: &str, systemd: bool) -> Option<PathBuf> {
    if systemd {
        return scope_path(cgroups_path);
    }
    cgroups_path.starts_with('/').then(|| cgroups_path.into())
}

impl Place {
    /// The path that `linux.cgroupsPath` stands for. `systemd`: the runtime was called with
    /// `--systemd-cgroup`.
    pub fn expected(cgroups_path: &str, systemd: bool) -> Option<PathBuf> {
        expected(cgroups_path, systemd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchies;

    const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn each_controller_is_in_one_hierarchy() {
        let cgroup = "3:memory:/a/c\n2:cpu,cpuacct:/a/c/below\n0::/a/u\n";
        let place = Place::of_process(&hierarchies(HYBRID), cgroup, Some(Path::new("/a/c")));
        assert_eq!(place.v1(Controller::Cpu), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct/a/c")));
        assert_eq!(place.v1(Controller::Memory), Some(Path::new("/sys/fs/cgroup/memory/a/c")));
        assert_eq!(place.v2(Controller::Memory), None);
        assert_eq!(place.v2(Controller::Hugetlb), Some(Path::new("/sys/fs/cgroup/unified/a/u")));
        assert_eq!(place.unified(), None);
        assert_eq!(place.dirs().len(), 3);
    }

    #[test]
    fn only_version_2() {
        let hierarchies = hierarchies("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let expected = Place::expected("system.slice:docker:c", true);
        let place = Place::of_process(
            &hierarchies,
            "0::/system.slice/docker-c.scope/container\n",
            expected.as_deref(),
        );
        let dir = Path::new("/sys/fs/cgroup/system.slice/docker-c.scope");
        assert_eq!(place.unified(), Some(dir));
        assert_eq!(place.v2(Controller::Blkio), Some(dir));
        assert_eq!(Place::of_path(&hierarchies, Path::new("/system.slice/docker-c.scope")), place);
    }

    #[test]
    fn what_a_path_stands_for() {
        for (path, systemd, stands_for) in [
            ("/a/b", false, Some("/a/b")),
            ("a/b", false, None),
            ("", false, None),
            ("user-1.slice:x:c", true, Some("/user.slice/user-1.slice/x-c.scope")),
        ] {
            assert_eq!(
                Place::expected(path, systemd).as_deref(),
                stands_for.map(Path::new),
                "{path}"
            );
        }
    }
}
