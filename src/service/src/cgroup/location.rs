//! Control groups of a container on this host: their directories, their threads, and whether they
//! are frozen.

use crate::host::{hierarchies, proc};
use nri_cgroup::{CgroupDirs, Controller, configured_path};
use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// Annotation of crun that names the cgroup of the container below its systemd scope.
pub const SUBGROUP_ANNOTATION: &str = "run.oci.systemd.subgroup";

/// Name of the cgroup below the systemd scope if a container lacks [`SUBGROUP_ANNOTATION`].
const DEFAULT_SUBGROUP: &str = "container";

/// Returns `/proc/PID/cgroup`; `None` for a process that has ended, or if the file cannot be read.
pub fn membership(pid: i32) -> Option<String> {
    Some(proc::text(format!("/proc/{pid}/cgroup"))).filter(|text| !text.is_empty())
}

/// Returns the path of a container's cgroup below the root of each hierarchy, without `..`; `None`
/// if its `cgroupsPath` does not say it, or names the root, which is no container's cgroup.
pub fn configured(path: &str, systemd: bool) -> Option<PathBuf> {
    normal(&configured_path(path, systemd)?)
}

/// Returns the paths at which a runtime may make the cgroup of a container. A relative path is
/// taken from the root (crun), or from the cgroup of the runtime or the one above it (runc);
/// `membership` is that of the runtime's caller.
pub fn possible(
    path: &str,
    systemd: bool,
    membership: impl FnOnce() -> Option<String>,
) -> Vec<PathBuf> {
    if systemd || path.is_empty() || path.starts_with('/') {
        return configured(path, systemd).into_iter().collect();
    }
    let membership = membership().unwrap_or_default();
    let own = membership.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(Path::new);
    // What leads out of its root does not count, as in runc.
    let path = normal(&Path::new("/").join(path));
    let path = path.as_deref().and_then(|path| path.strip_prefix("/").ok());
    let Some(path) = path else { return Vec::new() };
    let bases = own.flat_map(|own| [Some(own), own.parent()]).flatten();
    let mut all: Vec<_> = bases.chain([Path::new("/")]).map(|base| base.join(path)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns an absolute path without `.` and `..`; `None` if that is the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => _ = normal.pop(),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    normal.file_name().is_some().then_some(normal)
}

/// Returns the directories of a container whose first process had this `membership` when it was
/// created. `path`: the container's `cgroupsPath`; `systemd`: whether its runtime uses the systemd
/// cgroup driver; `subgroup`: the value of its [`SUBGROUP_ANNOTATION`]. `None` if that has led the
/// process out of them.
pub fn locate(
    membership: &str,
    path: &str,
    systemd: bool,
    subgroup: Option<&str>,
) -> Option<CgroupDirs> {
    if subgroup.is_some_and(leads_out) {
        return None;
    }
    let expected = expected(membership, path, systemd, subgroup);
    let dirs = CgroupDirs::of_process(&hierarchies::mounted(), membership, expected.as_deref());
    let scope = configured_path(path, systemd).filter(|_| systemd);
    let below = expected.zip(scope).and_then(|(own, scope)| {
        own.strip_prefix(scope).ok().map(|below| below.components().count())
    });
    Some(dirs.below_scope(below.unwrap_or(0)))
}

/// Returns the path of the container's own group, as the OCI config names it.
fn expected(
    membership: &str,
    path: &str,
    systemd: bool,
    subgroup: Option<&str>,
) -> Option<PathBuf> {
    let scope = configured_path(path, systemd)?;
    if !systemd {
        return Some(scope);
    }
    // In cgroup v2, crun makes a group below the scope for the process and for the limits that
    // crun does not pass to systemd.
    let subgroup = match subgroup {
        Some(name) => subgroup_name(name).map(|name| scope.join(name)),
        None => Some(scope.join(DEFAULT_SUBGROUP)),
    };
    Some(subgroup.filter(|group| is_member_of(membership, group)).unwrap_or(scope))
}

/// Returns the value of [`SUBGROUP_ANNOTATION`] without the slashes around it, as crun appends it
/// to the scope; `None` if it is not a single name. A user of an engine may choose the value, and
/// it must not lead out of the scope.
fn subgroup_name(value: &str) -> Option<&str> {
    let name = value.trim_matches('/');
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Some(name),
        _ => None,
    }
}

/// Whether a value of [`SUBGROUP_ANNOTATION`] can lead out of the scope: crun appends it as it is,
/// so that the process, and with it the limits, would be in another group.
fn leads_out(subgroup: &str) -> bool {
    subgroup.split('/').any(|part| part == "..")
}

/// Whether a process is in the group `path`, or in one below it, in any hierarchy.
fn is_member_of(membership: &str, path: &Path) -> bool {
    let paths = membership.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(Path::new).any(|member| member.starts_with(path))
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
        // In cgroup v2, then in v1.
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
    fn a_subgroup_with_dots_leads_out_of_the_scope() {
        assert!(leads_out("../x") && leads_out("x/../../y") && leads_out(".."));
        assert!(!leads_out("x") && !leads_out("/x/y/") && !leads_out("..x") && !leads_out(""));
    }

    #[test]
    fn a_subgroup_is_one_name_below_the_scope() {
        let path = "a-b.slice:x:c";
        let scope = "/a.slice/a-b.slice/x-c.scope";
        for (value, below, expected) in [
            (None, "container", "container"),
            (None, "other", ""),
            (Some("mine"), "mine/init", "mine"),
            // crun appends the value to the scope.
            (Some("/mine/"), "mine", "mine"),
            (Some(""), "", ""),
            // Values that once led to a group above the container.
            (Some("/a.slice"), "", ""),
            (Some("/a.slice"), "a.slice", "a.slice"),
            (Some("/"), "container", ""),
            (Some(".."), "", ""),
            (Some("../.."), "", ""),
            (Some("x/../.."), "x", ""),
            (Some("."), "", ""),
            (Some("x/y"), "x/y", ""),
            (Some("x/."), "x", ""),
        ] {
            let membership = format!("0::{scope}/{below}\n");
            let found = super::expected(&membership, path, true, value);
            assert_eq!(found, Some(Path::new(scope).join(expected)), "{value:?}");
        }
    }

    #[test]
    fn a_path_is_looked_up_without_detours() {
        for (path, systemd, expected) in [
            ("/docker/a", false, Some("/docker/a")),
            ("/x/../docker//./a/", false, Some("/docker/a")),
            ("/..", false, None),
            ("/", false, None),
            ("", false, None),
            ("docker/a", false, None),
            ("-.slice:x:c", true, Some("/x-c.scope")),
        ] {
            assert_eq!(configured(path, systemd).as_deref(), expected.map(Path::new), "{path}");
        }
        let possible = |path: &str| {
            let membership = || Some("2:cpu:/a/b\n0::/s\n".to_owned());
            let all = possible(path, false, membership);
            all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(possible("/docker/a"), ["/docker/a"]);
        assert_eq!(
            possible("../docker/a"),
            ["/a/b/docker/a", "/a/docker/a", "/docker/a", "/s/docker/a"]
        );
        assert!(possible("").is_empty());
    }

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
