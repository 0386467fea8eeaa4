//! The fact `host_namespaces`: the namespaces of the host in which the container is.
//!
//! The host is process 1, and `nrid` itself: that of a user may not look at the namespaces of
//! process 1.

use crate::host::proc::NamespaceId;
use nri_spec::OciConfig;

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

/// Returns the paths of namespaces that a container joins. Paths of `config` are absolute.
pub(super) fn paths(config: &OciConfig) -> Vec<String> {
    config.namespaces().filter_map(|n| n.path.map(str::to_owned)).collect()
}

/// Returns the names of the namespaces of the host. `joined` has the namespaces at [`paths`].
///
/// # Errors
/// A path could not be looked up.
pub(super) fn of_host(
    config: &OciConfig,
    joined: Vec<Result<NamespaceId, String>>,
    host: impl Fn(&str, NamespaceId) -> bool,
) -> Result<String, String> {
    let joined = joined.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut joined = joined.into_iter();
    let mut entries = Vec::new();
    for namespace in config.namespaces() {
        entries.push((namespace.kind, namespace.path.and_then(|_| joined.next())));
    }
    let is_of_host = |(kind, file): &(&str, &str)| {
        let of_kind = || entries.iter().filter(|(found, _)| found == kind);
        of_kind().next().is_none()
            || of_kind().any(|(_, joined)| joined.is_some_and(|joined| host(file, joined)))
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
        let paths = paths(&config);
        let joined = paths.iter().map(|path| Ok(NamespaceId::at(path.as_ref()).unwrap()));
        let found = of_host(&config, joined.collect(), |kind, id| id.is_of_host(kind));
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
    fn a_namespace_that_cannot_be_looked_up_leaves_the_fact_out() {
        let config = json!({"linux": {"namespaces": [{"type": "pid", "path": "/none"}]}});
        let config = OciConfig::from_value(config).unwrap();
        assert_eq!(paths(&config), ["/none"]);
        let error = "\"/none\": not there".to_owned();
        assert_eq!(of_host(&config, vec![Err(error.clone())], |_, _| false), Err(error));
    }
}
