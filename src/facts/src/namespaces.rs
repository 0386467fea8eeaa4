//! The fact `host_namespaces`: the namespaces of the host in which the container is.
//!
//! The host is process 1, and `nrid` itself: that of a user may not look at the namespaces of
//! process 1.

use nri_spec::OciConfig;
use serde::{Deserialize, Serialize};
use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// Names in `config.json` and in `/proc/PID/ns`, in the order of the annotation.
const KINDS: [(&str, &str); 8] = [
    ("cgroup", "cgroup"),
    ("ipc", "ipc"),
    ("mount", "mnt"),
    ("network", "net"),
    ("pid", "pid"),
    ("time", "time"),
    ("user", "user"),
    ("uts", "uts"),
];

/// Identity of a namespace as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceId {
    device: u64,
    inode: u64,
}

impl NamespaceId {
    /// Returns the namespace at a path, links followed.
    ///
    /// # Errors
    /// There is none, or this process may not look at it.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self { device: file.dev(), inode: file.ino() })
    }

    /// Whether this is the namespace of process 1 or of this process, by the name that `/proc` has
    /// for its kind. True also if neither may be looked at.
    pub fn is_of_host(self, kind: &str) -> bool {
        let of = |process: &str| Self::at(format!("/proc/{process}/ns/{kind}").as_ref()).ok();
        let found = [of("1"), of("self")];
        found.contains(&Some(self)) || found == [None, None]
    }
}

/// Whether a namespace is where no user can exchange it between a look at it and the call of the
/// runtime, as a link in a volume could be.
fn is_in_place(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let parts = parts.as_slice();
    match parts.strip_prefix(&["var"]).unwrap_or(parts) {
        parts if parts.contains(&"..") => false,
        ["proc", _, "ns", _] | ["proc", _, "task", _, "ns", _] => true,
        // Of Podman without root.
        ["run", "user", _, rest @ ..] => matches!(rest, ["netns", _]),
        ["run", "lock" | "shm", ..] => false,
        // BuildKit with networks of its own.
        ["run", ..] | ["lib", "buildkit", "net", ..] => true,
        _ => false,
    }
}

/// Returns the paths of namespaces that a container joins. Paths of `config` are absolute.
pub fn namespace_paths(config: &OciConfig) -> Vec<String> {
    config.namespaces().filter_map(|n| n.path.map(str::to_owned)).collect()
}

/// Returns the value of the annotation: the names of the namespaces of the host. `joined` has the
/// namespaces at [`namespace_paths`], such as [`NamespaceId`]. `host` tells whether one is of the
/// host, by the name that `/proc` has for its kind. One that users may exchange counts as such.
///
/// # Errors
/// A path could not be looked up.
pub fn host_namespaces<T: Copy>(
    config: &OciConfig,
    joined: Vec<Result<T, String>>,
    host: impl Fn(&str, T) -> bool,
) -> Result<String, String> {
    let joined = joined.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut joined = joined.into_iter();
    let mut entries = Vec::new();
    for namespace in config.namespaces() {
        let is_in_place = namespace.path.is_none_or(is_in_place);
        entries.push((namespace.kind, namespace.path.and_then(|_| joined.next()), is_in_place));
    }
    let is_of_host = |(kind, file): &(&str, &str)| {
        let of_kind = || entries.iter().filter(|(found, ..)| found == kind);
        let is_host = |joined: Option<T>| joined.is_some_and(|joined| host(file, joined));
        of_kind().next().is_none()
            || of_kind().any(|(_, joined, is_in_place)| !is_in_place || is_host(*joined))
    };
    let names: Vec<_> = KINDS.into_iter().filter(is_of_host).map(|(kind, _)| kind).collect();
    Ok(names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(namespaces: &Value, expected: &str) {
        let config = json!({"linux": {"namespaces": namespaces}});
        let config = OciConfig::from_value(config).unwrap();
        let paths = namespace_paths(&config);
        let joined = paths.iter().map(|path| Ok(NamespaceId::at(path.as_ref()).unwrap()));
        let found =
            host_namespaces(&config, joined.collect(), |kind, id: NamespaceId| id.is_of_host(kind));
        assert_eq!(found.unwrap(), expected, "{namespaces}");
    }

    #[test]
    fn a_namespace_is_of_the_host_without_an_entry_or_by_its_path() {
        check(&json!([]), "cgroup,ipc,mount,network,pid,time,user,uts");
        let usual = ["cgroup", "ipc", "mount", "network", "pid", "uts"];
        let with = |path: &str| -> Value {
            let entry = |kind: &&str| match *kind {
                "network" => json!({"type": kind, "path": path}),
                _ => json!({"type": kind}),
            };
            usual.iter().map(entry).collect()
        };
        check(&with(""), "time,user");
        check(&with("/proc/self/ns/net"), "network,time,user");
        check(&with("/proc/self/ns/../ns/net"), "network,time,user");
        // Whatever it is, it is another one.
        check(&with("/proc/self/ns/uts"), "time,user");
    }

    #[test]
    fn a_namespace_is_in_place_where_users_write_nothing() {
        for (path, expected) in [
            ("/proc/7/ns/pid", true),
            ("/proc/7/task/8/ns/net", true),
            ("/var/run/docker/netns/a", true),
            ("/run/netns/cni-1", true),
            ("/var/lib/buildkit/net/cni/a", true),
            ("/run/user/1000/netns/netns-1", true),
            ("/run/user/1000/link", false),
            ("/run/lock/link", false),
            ("/proc/7/root/link", false),
            ("/proc/self/cwd/link", false),
            ("/run/../home/link", false),
            ("/var/lib/docker/volumes/a/_data/link", false),
        ] {
            assert_eq!(is_in_place(path), expected, "{path}");
        }
    }

    #[test]
    fn a_namespace_that_cannot_be_looked_up_leaves_the_fact_out() {
        let config = json!({"linux": {"namespaces": [{"type": "pid", "path": "/none"}]}});
        let config = OciConfig::from_value(config).unwrap();
        assert_eq!(namespace_paths(&config), ["/none"]);
        let error = "\"/none\": not there".to_owned();
        let joined: Vec<Result<NamespaceId, _>> = vec![Err(error.clone())];
        assert_eq!(host_namespaces(&config, joined, |_, _| false), Err(error));
    }
}
