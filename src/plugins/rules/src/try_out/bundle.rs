//! Facts about the container of a `config.json` that no `nrid` has seen: for `nri-rules test`, as
//! far as they follow from the file. What `nrid` finds on the host beside that (bind mounts of
//! sources, links in other mount namespaces) is not in them.

use crate::facts::MountSource;
use nri_spec::{OciConfig, facts::ContainerFacts};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// All namespaces of the kernel, as `host_namespaces` names them.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mount", "network", "pid", "time", "user", "uts"];

/// Returns the facts that follow from the file, by name. `dir` is that of the file.
pub(crate) fn facts(config: &OciConfig, dir: &Path) -> [(&'static str, String); 7] {
    let facts = ContainerFacts::of(config, None);
    // A list of texts and flags has a notation.
    let sources = serde_json::to_string(&mount_sources(config, dir)).unwrap_or_default();
    [
        ("capabilities", facts.capabilities()),
        ("device_access", facts.device_access()),
        ("host_namespaces", host_namespaces(config).join(",")),
        ("mount_sources", sources),
        ("privileged", facts.is_privileged().to_string()),
        ("seccomp", facts.seccomp().to_owned()),
        ("unprotected_paths", facts.unprotected_paths()),
    ]
}

fn array<'a>(value: Option<&'a Value>) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn host_namespaces(config: &OciConfig) -> Vec<&'static str> {
    let is_own = |name: &str| {
        let mut all = array(config.get(&["linux", "namespaces"]));
        all.any(|own| {
            let path = own["path"].as_str().unwrap_or_default();
            own["type"] == name && !path.starts_with("/proc/1/ns/")
        })
    };
    NAMESPACES.into_iter().filter(|name| !is_own(name)).collect()
}

fn mount_sources(config: &OciConfig, dir: &Path) -> Vec<MountSource> {
    let mut found = Vec::new();
    let root = config.get(&["root"]);
    let path = |path: &str| dir.join(path);
    if let Some(source) = root.and_then(|root| root["path"].as_str()) {
        let is_read_only = root.is_some_and(|root| root["readonly"] == true);
        found.push(source_of("/", &path(source), "root", !is_read_only));
    }
    for mount in array(config.get(&["mounts"])) {
        let options: Vec<&str> = array(mount.get("options")).filter_map(Value::as_str).collect();
        let is_bind = mount["type"] == "bind" || options.iter().any(|o| o.ends_with("bind"));
        let destination = mount["destination"].as_str().unwrap_or_default();
        let is_writable = !options.contains(&"ro");
        if let Some(source) = mount["source"].as_str().filter(|_| is_bind) {
            found.push(source_of(destination, &path(source), "bind", is_writable));
        }
        if mount["type"] == "overlay" {
            let dirs = options.iter().filter_map(|option| {
                let (name, dirs) = option.split_once('=')?;
                ["lowerdir", "upperdir"].contains(&name).then_some((name, dirs))
            });
            for (name, dirs) in dirs {
                let writable = name == "upperdir" && is_writable;
                let all = dirs.split(':').filter(|dir| !dir.is_empty());
                found
                    .extend(all.map(|dir| source_of(destination, &path(dir), "overlay", writable)));
            }
        }
    }
    found
}

/// Returns a source with its path and type on this machine; one that is not here is a directory.
fn source_of(destination: &str, source: &Path, kind: &str, writable: bool) -> MountSource {
    let real: PathBuf = fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let kind_of = fs::metadata(&real).map(|found| found.file_type()).ok();
    let file_type = match kind_of {
        Some(kind) if kind.is_file() => "file",
        Some(kind) if kind.is_socket() => "socket",
        Some(kind) if kind.is_block_device() => "block",
        Some(kind) if kind.is_char_device() => "character",
        _ => "directory",
    };
    MountSource {
        destination: destination.to_owned(),
        real: real.to_string_lossy().into_owned(),
        writable,
        kind: kind.to_owned(),
        file_type: file_type.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::symlink;

    #[test]
    fn facts_follow_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/null", dir.path().join("link")).unwrap();
        let config = json!({
            "ociVersion": "1.0.2",
            "root": {"path": "rootfs", "readonly": true},
            "process": {"capabilities": {
                "bounding": ["CAP_KILL"], "ambient": ["CAP_SYS_ADMIN", "CAP_KILL"],
            }},
            "mounts": [
                {"destination": "/a", "type": "bind", "source": "link", "options": ["ro"]},
                {"destination": "/b", "type": "overlay", "source": "overlay",
                 "options": ["lowerdir=/x:/y", "upperdir=/z"]},
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
        let found = facts(&config, dir.path());
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
            MountSource { destination, real, writable, kind, file_type }
        };
        let root = dir.path().join("rootfs").display().to_string();
        assert_eq!(
            sources,
            [
                source("/", &root, false, "root", "directory"),
                source("/a", "/dev/null", false, "bind", "character"),
                source("/b", "/x", false, "overlay", "directory"),
                source("/b", "/y", false, "overlay", "directory"),
                source("/b", "/z", true, "overlay", "directory"),
            ]
        );
    }
}
