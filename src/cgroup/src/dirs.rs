//! Directories of a container's cgroups.

use crate::{
    controller::Controller,
    hierarchy::{Hierarchy, HierarchyKind},
    proc_cgroup::path_in_hierarchy,
    systemd::scope_path,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Directories of a container's cgroups, by controller.
///
/// Where both versions are mounted (the hybrid layout), a controller is in one of them: in cgroup
/// v2 unless a hierarchy of cgroup v1 has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupDirs {
    v1: BTreeMap<Controller, PathBuf>,
    v2: Option<PathBuf>,
    /// The systemd scope, in cgroup v2, of a container whose own cgroup is below it.
    scope: Option<PathBuf>,
}

impl CgroupDirs {
    /// Finds the directories from `cgroup`, the text of `/proc/PID/cgroup` of the container's init
    /// process. A container may have moved the process to a child cgroup; then `configured`, the
    /// path of the OCI config, is used, unless it is the root, which is no container's cgroup.
    pub fn of_process(hierarchies: &[Hierarchy], cgroup: &str, configured: Option<&Path>) -> Self {
        let configured = configured.filter(|path| path.file_name().is_some());
        Self::in_hierarchies(hierarchies, |hierarchy| {
            let path = Path::new(path_in_hierarchy(cgroup, hierarchy)?);
            Some(configured.filter(|configured| path.starts_with(configured)).unwrap_or(path))
        })
    }

    /// Finds the directories from an absolute path below the root of each hierarchy.
    pub fn of_path(hierarchies: &[Hierarchy], path: &Path) -> Self {
        Self::in_hierarchies(hierarchies, |_| Some(path))
    }

    /// Adds the systemd scope of a container whose own cgroup is `levels` below it, as crun makes
    /// them in cgroup v2.
    pub fn below_scope(mut self, levels: usize) -> Self {
        let scope = self.v2.as_deref().and_then(|dir| dir.ancestors().nth(levels));
        self.scope = scope.filter(|_| levels > 0).map(Path::to_owned);
        self
    }

    /// Collects the directories from the `path` of the cgroup in each hierarchy.
    fn in_hierarchies<'a>(
        hierarchies: &[Hierarchy],
        path: impl Fn(&Hierarchy) -> Option<&'a Path>,
    ) -> Self {
        let mut dirs = Self::default();
        for hierarchy in hierarchies {
            let Some(path) = path(hierarchy) else { continue };
            let dir = hierarchy.path.join(path.strip_prefix("/").unwrap_or(path));
            match &hierarchy.kind {
                HierarchyKind::V2 => dirs.v2 = Some(dir),
                HierarchyKind::V1(options) => {
                    for controller in Controller::ALL {
                        if options.iter().any(|o| o == controller.name()) {
                            dirs.v1.insert(controller, dir.clone());
                        }
                    }
                }
            }
        }
        dirs
    }

    /// The directory in cgroup v1 that has a controller's files.
    pub fn v1(&self, controller: Controller) -> Option<&Path> {
        self.v1.get(&controller).map(PathBuf::as_path)
    }

    /// The directory in cgroup v2, unless a hierarchy of cgroup v1 has the controller.
    pub fn v2(&self, controller: Controller) -> Option<&Path> {
        if self.v1.contains_key(&controller) { None } else { self.v2.as_deref() }
    }

    /// The directory in cgroup v2, unless some controllers are in cgroup v1.
    pub fn unified(&self) -> Option<&Path> {
        if self.v1.is_empty() { self.v2.as_deref() } else { None }
    }

    /// The systemd scope of a container whose own cgroup, the [`unified`](Self::unified) one, is
    /// below it. Weights count among the siblings of the scope.
    pub fn scope(&self) -> Option<&Path> {
        self.scope.as_deref().filter(|_| self.v1.is_empty())
    }

    /// All directories, without duplicates.
    pub fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<_> = self.v1.values().chain(&self.v2).map(PathBuf::as_path).collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs
    }
}

/// Path of a container's cgroup below the root of each hierarchy, from `linux.cgroupsPath`; `None`
/// if `cgroups_path` is empty or relative, since the container's cgroup then depends on the cgroup
/// of the runtime. `systemd`: whether the runtime was called with `--systemd-cgroup`.
pub fn configured_path(cgroups_path: &str, systemd: bool) -> Option<PathBuf> {
    if systemd {
        return scope_path(cgroups_path);
    }
    cgroups_path.starts_with('/').then(|| cgroups_path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::HierarchyKind;

    fn v1(path: &str, options: &[&str]) -> Hierarchy {
        let options = options.iter().map(|o| (*o).to_owned()).collect();
        Hierarchy { path: path.into(), kind: HierarchyKind::V1(options) }
    }

    fn v2(path: &str) -> Hierarchy {
        Hierarchy { path: path.into(), kind: HierarchyKind::V2 }
    }

    #[test]
    fn in_the_hybrid_layout_each_controller_is_in_one_version() {
        let cgroup = "3:memory:/a/c\n2:cpu,cpuacct:/a/c/below\n0::/a/u\n";
        let hybrid = [
            v1("/sys/fs/cgroup/cpu,cpuacct", &["rw", "cpu", "cpuacct"]),
            v1("/sys/fs/cgroup/memory", &["rw", "memory"]),
            v2("/sys/fs/cgroup/unified"),
        ];
        let dirs = CgroupDirs::of_process(&hybrid, cgroup, Some(Path::new("/a/c")));
        assert_eq!(dirs.v1(Controller::Cpu), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct/a/c")));
        assert_eq!(dirs.v1(Controller::Memory), Some(Path::new("/sys/fs/cgroup/memory/a/c")));
        assert_eq!(dirs.v2(Controller::Memory), None);
        assert_eq!(dirs.v2(Controller::Hugetlb), Some(Path::new("/sys/fs/cgroup/unified/a/u")));
        assert_eq!(dirs.unified(), None);
        assert_eq!(dirs.dirs().len(), 3);
    }

    #[test]
    fn cgroup_v2_has_one_directory() {
        let hierarchies = [v2("/sys/fs/cgroup")];
        let configured = configured_path("system.slice:docker:c", true);
        let dirs = CgroupDirs::of_process(
            &hierarchies,
            "0::/system.slice/docker-c.scope/container\n",
            configured.as_deref(),
        );
        let dir = Path::new("/sys/fs/cgroup/system.slice/docker-c.scope");
        assert_eq!(dirs.unified(), Some(dir));
        assert_eq!(dirs.v2(Controller::Blkio), Some(dir));
        assert_eq!(
            CgroupDirs::of_path(&hierarchies, Path::new("/system.slice/docker-c.scope")),
            dirs
        );
    }

    #[test]
    fn a_configured_path_is_used_only_above_the_process_and_below_the_root() {
        let hierarchies = [v2("/sys/fs/cgroup")];
        for (configured, expected) in [
            ("/a/c", "/sys/fs/cgroup/a/c"),
            ("/", "/sys/fs/cgroup/a/c/init"),
            ("//.", "/sys/fs/cgroup/a/c/init"),
            ("/x/../a", "/sys/fs/cgroup/a/c/init"),
            ("/a/c/..", "/sys/fs/cgroup/a/c/init"),
            ("/b", "/sys/fs/cgroup/a/c/init"),
        ] {
            let configured = Some(Path::new(configured));
            let dirs = CgroupDirs::of_process(&hierarchies, "0::/a/c/init\n", configured);
            assert_eq!(dirs.unified(), Some(Path::new(expected)), "{configured:?}");
        }
    }

    #[test]
    fn a_configured_path_depends_on_the_driver() {
        for (path, systemd, expected) in [
            ("/a/b", false, Some("/a/b")),
            ("a/b", false, None),
            ("", false, None),
            ("user-1.slice:x:c", true, Some("/user.slice/user-1.slice/x-c.scope")),
        ] {
            assert_eq!(
                configured_path(path, systemd).as_deref(),
                expected.map(Path::new),
                "{path}"
            );
        }
    }
}
