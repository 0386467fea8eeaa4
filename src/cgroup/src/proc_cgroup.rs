//! Cgroups of a process, parsed from `/proc/PID/cgroup`.

use crate::hierarchy::{Hierarchy, HierarchyKind};

/// Path of the process's cgroup below the root of `hierarchy`; `None` if `cgroup`, the text of
/// `/proc/PID/cgroup`, has no line for the hierarchy, or the group is outside of the reader's
/// cgroup namespace (`/../x`, see cgroup_namespaces(7)).
pub fn path_in_hierarchy<'a>(cgroup: &'a str, hierarchy: &Hierarchy) -> Option<&'a str> {
    cgroup
        .lines()
        .find_map(|line| {
            // id:controllers:path; cgroup v2 has no controllers in its line.
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let is_of_hierarchy = match &hierarchy.kind {
                HierarchyKind::V2 => controllers.is_empty(),
                HierarchyKind::V1(options) => {
                    !controllers.is_empty()
                        && controllers.split(',').all(|c| options.iter().any(|o| o == c))
                }
            };
            is_of_hierarchy.then_some(path)
        })
        .filter(|path| !path.split('/').any(|component| component == ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_hierarchy_is_found_by_its_controllers() {
        let of = |kind| Hierarchy { path: "/x".into(), kind };
        let v1 = |options: &[&str]| {
            of(HierarchyKind::V1(options.iter().map(|o| (*o).to_owned()).collect()))
        };
        let cgroup = "5:cpu,cpuacct:/pod/c:d\n4:pids:/../x\n1:name=systemd:/\n0::/pod/e\n";
        for (hierarchy, path) in [
            (v1(&["rw", "cpuacct", "cpu"]), Some("/pod/c:d")),
            (v1(&["rw", "cpu"]), None),
            (v1(&["rw", "name=systemd"]), Some("/")),
            (v1(&["rw", "pids"]), None),
            (of(HierarchyKind::V2), Some("/pod/e")),
        ] {
            assert_eq!(path_in_hierarchy(cgroup, &hierarchy), path, "{hierarchy:?}");
        }
    }
}
