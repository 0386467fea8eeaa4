//! Where a process is, from the text of `/proc/PID/cgroup`.

use crate::{Hierarchy, Kind};

/// The path in this hierarchy, from its root; `None` if the text does not speak of it.
pub fn path_in<'a>(cgroup: &'a str, hierarchy: &Hierarchy) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        // «id:controllers:path»; version 2 has no controllers there.
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let same = match &hierarchy.kind {
            Kind::V2 => controllers.is_empty(),
            Kind::V1(options) => {
                !controllers.is_empty()
                    && controllers.split(',').all(|c| options.iter().any(|o| o == c))
            }
        };
        same.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hierarchy_has_its_line() {
        let of = |kind| Hierarchy { path: "/x".into(), kind };
        let v1 = |options: &[&str]| of(Kind::V1(options.iter().map(|o| (*o).to_owned()).collect()));
        let cgroup = "5:cpu,cpuacct:/pod/c:d\n1:name=systemd:/\n0::/pod/e\n";
        for (hierarchy, path) in [
            (v1(&["rw", "cpuacct", "cpu"]), Some("/pod/c:d")),
            (v1(&["rw", "cpu"]), None),
            (v1(&["rw", "name=systemd"]), Some("/")),
            (of(Kind::V2), Some("/pod/e")),
        ] {
            assert_eq!(path_in(cgroup, &hierarchy), path, "{hierarchy:?}");
        }
    }
}
