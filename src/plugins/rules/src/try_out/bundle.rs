//! Facts about the container of a `config.json` that no `nrid` has seen, for `nri-rules test`:
//! found as `nrid` finds them, on this machine. What is not here is as the file has it.

use nri_facts::{
    Access, HostFiles, HostFilesKind, MountSource, MountSources, NamespaceId, Way, host_namespaces,
    namespace_paths, resolve_here,
};
use nri_locate::absolute;
use nri_spec::{OciConfig, facts::ContainerFacts, resolve_paths};
use std::path::Path;

/// Names of the facts for which paths are looked up.
const HOST_NAMESPACES: &str = "host_namespaces";
/// See [`HOST_NAMESPACES`].
const MOUNT_SOURCES: &str = "mount_sources";

/// A path that could not be looked up, so that a fact has it as the file does.
#[derive(Debug)]
pub(super) struct Unseen {
    /// Name of the fact.
    pub(super) fact: &'static str,
    /// The path, and why.
    pub(super) why: String,
}

/// Returns the facts by name, and what could not be looked up for them. `dir` is that of the file.
pub(super) fn facts(config: &OciConfig, dir: &Path) -> ([(&'static str, String); 7], Vec<Unseen>) {
    let facts = ContainerFacts::of(config, None);
    // As runtimes resolve them.
    let mut resolved = config.clone();
    resolve_paths(&mut resolved, &absolute(dir).to_string_lossy());
    let mut unseen = Vec::new();
    let values = [
        ("capabilities", facts.capabilities()),
        ("device_access", facts.device_access()),
        (HOST_NAMESPACES, namespaces(&resolved, &mut unseen)),
        (MOUNT_SOURCES, mount_sources(&resolved, &mut unseen)),
        ("privileged", facts.is_privileged().to_string()),
        ("seccomp", facts.seccomp().to_owned()),
        ("unprotected_paths", facts.unprotected_paths()),
    ];
    (values, unseen)
}

fn namespaces(config: &OciConfig, unseen: &mut Vec<Unseen>) -> String {
    let joined = namespace_paths(config).into_iter().map(|path| {
        let found = NamespaceId::at(path.as_ref());
        // One that is not here is that of the container, unless its path says otherwise.
        Ok(found.map_err(|error| {
            unseen.push(Unseen { fact: HOST_NAMESPACES, why: format!("{path:?}: {error}") });
            path.starts_with("/proc/1/ns/")
        }))
    });
    let is_of_host = |kind: &str, found: Result<NamespaceId, bool>| {
        found.map_or_else(|is_of_host| is_of_host, |namespace| namespace.is_of_host(kind))
    };
    host_namespaces(config, joined.collect(), is_of_host).unwrap_or_default()
}

fn mount_sources(config: &OciConfig, unseen: &mut Vec<Unseen>) -> String {
    let all = MountSources::of(config);
    let found = resolve_here(&all.sources).into_iter().zip(&all.sources).map(|(found, source)| {
        Ok(found.unwrap_or_else(|why| {
            unseen.push(Unseen { fact: MOUNT_SOURCES, why });
            vec![as_written(source)]
        }))
    });
    let found = found.collect();
    all.annotation(found).unwrap_or_default()
}

/// Returns a source that is not on this machine: a directory, as most are.
fn as_written(source: &MountSource) -> HostFiles {
    HostFiles {
        real: source.path.clone(),
        writable: source.access == Access::Write,
        kind: match source.way {
            Way::Bind | Way::RecursiveBind => HostFilesKind::Bind,
            Way::Layer => HostFilesKind::Overlay,
            Way::Device => HostFilesKind::Device,
            Way::Root => HostFilesKind::Root,
        },
        file_type: "directory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::MountSource;
    use serde_json::json;
    use std::os::unix::fs::symlink;

    #[test]
    fn facts_are_those_of_this_machine_and_else_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        symlink("/dev/null", path.join("link")).unwrap();
        let config = json!({
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": true},
            "process": {"capabilities": {
                "bounding": ["CAP_KILL"], "ambient": ["CAP_SYS_ADMIN", "CAP_KILL"],
            }},
            "mounts": [
                {"destination": "/a", "type": "bind", "source": "link", "options": ["ro"]},
                {"destination": "/b", "type": "overlay", "source": "overlay",
                 "options": ["lowerdir=/none/x:/none/y", "upperdir=/none/z"]},
                {"destination": "/proc", "type": "proc", "source": "proc"},
            ],
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "uts", "path": "/proc/1/ns/uts"}],
                "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []},
                "resources": {"devices": [
                    {"allow": true, "type": "c", "major": 9, "minor": 9, "access": "rwm"},
                    {"allow": false, "access": "rwm"},
                    {"allow": true, "type": "b", "access": "rwm"},
                ]},
            },
        });
        let config = OciConfig::parse(config.to_string().as_bytes()).unwrap();
        let (found, unseen) = facts(&config, &path);
        let fact = |name| &found.iter().find(|(own, _)| *own == name).unwrap().1;
        assert_eq!(fact("capabilities"), "CAP_KILL,CAP_SYS_ADMIN");
        let runtimes = "c *:* m,c 1:3 rwm,c 1:5 rwm,c 1:7 rwm,c 1:8 rwm,c 1:9 rwm,c 5:0 rwm,\
                        c 5:1 rwm,c 5:2 rwm,c 10:200 rwm,c 136:* rwm";
        assert_eq!(fact("device_access"), &format!("b *:* rwm,{runtimes}"));
        assert_eq!(fact("privileged"), "true");
        assert_eq!(fact("seccomp"), "unfiltered");
        assert_eq!(fact("host_namespaces"), "cgroup,ipc,mount,network,time,user,uts");
        let sources: Vec<MountSource> = serde_json::from_str(fact("mount_sources")).unwrap();
        let source = |destination: &str, real: &str, writable, kind: &str, file_type: &str| {
            let [destination, real, kind, file_type] =
                [destination, real, kind, file_type].map(str::to_owned);
            let written = match destination.as_str() {
                "/a" => path.join("link").display().to_string(),
                _ => real.clone(),
            };
            let propagation = String::new();
            MountSource {
                destination,
                source: written,
                real,
                writable,
                propagation,
                kind,
                file_type,
            }
        };
        let root = path.join("rootfs").display().to_string();
        assert_eq!(
            sources,
            [
                source("/a", "/dev/null", false, "bind", "character"),
                source("/b", "/none/x", false, "overlay", "directory"),
                source("/b", "/none/y", false, "overlay", "directory"),
                source("/b", "/none/z", true, "overlay", "directory"),
                source("/", &root, false, "root", "directory"),
            ]
        );
        let unseen = unseen.iter().filter(|unseen| unseen.fact == MOUNT_SOURCES);
        let unseen: Vec<_> = unseen.map(|unseen| unseen.why.as_str()).collect();
        let why = |path: &str| format!("{path:?}: No such file or directory (os error 2)");
        assert_eq!(unseen, ["/none/x", "/none/y", "/none/z", &root].map(why));
    }

    #[test]
    fn a_namespace_is_looked_up_and_else_its_path_decides() {
        let of = |path: &str| {
            let config = json!({"linux": {"namespaces": [{"type": "uts", "path": path}]}});
            let config = OciConfig::from_value(config).unwrap();
            let mut unseen = Vec::new();
            let found = namespaces(&config, &mut unseen);
            (found.ends_with(",uts"), unseen.len())
        };
        assert_eq!(of("/proc/self/ns/uts"), (true, 0));
        assert_eq!(of("/run/netns/none"), (false, 1));
        // Where a user could exchange it.
        assert_eq!(of("/none"), (true, 1));
        assert_eq!(of("/proc/1/ns/none"), (true, 1));
    }
}
