//! Which engine wrote a bundle, which pod a container belongs to, and their names: a file per engine.
//!
//! Pure: decides from what the OCI document and the call of the runtime hold. What is not there stays empty; nothing here fails, since a
//! container must not fail because its name could not be found. Start from [`identify`].

#![forbid(unsafe_code)]

mod cri;
mod plain;

use std::{collections::BTreeMap, path::Path};

/// Annotations or labels.
pub type Map = BTreeMap<String, String>;

/// What is known of a container before any engine was recognized.
#[derive(Debug, Clone, Copy)]
pub struct Clues<'a> {
    /// Container id, as the runtime was given it.
    pub id: &'a str,
    /// Annotations of the OCI document.
    pub annotations: &'a Map,
    /// Bundle directory.
    pub bundle: &'a Path,
    /// `linux.cgroupsPath`
    pub cgroups_path: &'a str,
    /// `hostname`
    pub hostname: &'a str,
}

/// The engines that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// containerd's or iSulad's CRI.
    Cri,
    /// Nothing recognized: a shell, or an engine without marks.
    Plain,
}

/// What the container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is the pod's sandbox.
    Sandbox,
    /// It is in a pod that has a sandbox container.
    Member,
    /// The pod is made up, and begins and ends with this container.
    Alone,
}

/// A pod's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Id of the sandbox.
    pub id: String,
    /// Name.
    pub name: String,
    /// Uid that the orchestrator gave.
    pub uid: String,
    /// Namespace of the orchestrator.
    pub namespace: String,
    /// Labels.
    pub labels: Map,
    /// Annotations.
    pub annotations: Map,
    /// Cgroup above the containers'.
    pub cgroup_parent: String,
}

/// Who a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The engine.
    pub engine: Engine,
    /// What it is to its pod.
    pub role: Role,
    /// The pod.
    pub pod: Pod,
    /// The container's name.
    pub name: String,
    /// The container's labels.
    pub labels: Map,
    /// Name of its image.
    pub image: String,
}

/// Decides who a container is.
pub fn identify(clues: &Clues<'_>) -> Identity {
    cri::identify(clues).unwrap_or_else(|| plain::identify(clues))
}

/// What stands above the last component of a cgroupfs path, or the slice of a systemd one.
fn cgroup_parent(cgroups_path: &str) -> String {
    match cgroups_path.split(':').collect::<Vec<_>>().as_slice() {
        [slice, _prefix, _name] => (*slice).to_owned(),
        _ => Path::new(cgroups_path).parent().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_of_cgroup_paths() {
        for (path, parent) in [
            ("/a/b/c", "/a/b"),
            ("/c", "/"),
            ("", ""),
            ("system.slice:docker:c", "system.slice"),
            (":cri:c", ""),
        ] {
            assert_eq!(cgroup_parent(path), parent, "{path}");
        }
    }
}
