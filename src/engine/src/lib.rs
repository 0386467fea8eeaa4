//! Which engine wrote a bundle, which pod a container belongs to, and their names: a file per engine.
//!
//! Pure: [`identify`] decides from what the OCI document and the call of the runtime hold. What is not there stays empty; nothing here
//! fails, since a container must not fail because its name could not be found. Where an engine keeps more elsewhere (Docker's files,
//! containerd's API, Podman's lists), the [`Identity`] names the [`Source`]; whoever reads it hands the bytes to the `complete` function of
//! [`docker`], [`containerd`] or [`podman`], and an error of those is a reason to log, no more.

#![forbid(unsafe_code)]

pub mod containerd;
mod cri;
pub mod docker;
mod plain;
pub mod podman;
mod unreadable;

pub use unreadable::Unreadable;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// Annotations, labels or variables.
pub type Map = BTreeMap<String, String>;

/// What is known of a container before any engine was recognized.
#[derive(Debug, Clone, Copy)]
pub struct Clues<'a> {
    /// Container id, as the runtime was given it.
    pub id: &'a str,
    /// Annotations of the OCI document.
    pub annotations: &'a Map,
    /// `process.args`
    pub args: &'a [String],
    /// Bundle directory.
    pub bundle: &'a Path,
    /// `linux.cgroupsPath`
    pub cgroups_path: &'a str,
    /// `hostname`
    pub hostname: &'a str,
    /// `root.path`, as written.
    pub root: &'a Path,
    /// Sources of the mounts, as written.
    pub mounts: &'a [PathBuf],
    /// `--root` of the runtime's call.
    pub runtime_root: Option<&'a Path>,
    /// Environment of the runtime's call.
    pub environment: &'a Map,
}

/// The engines that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// containerd's CRI.
    Containerd,
    /// containerd without CRI: `ctr`, or a client of its own.
    Ctr,
    /// nerdctl.
    Nerdctl,
    /// CRI-O.
    CriO,
    /// Podman, or whatever else uses libpod.
    Podman,
    /// Docker.
    Docker,
    /// Docker on behalf of Kubernetes.
    CriDockerd,
    /// iSulad, by its CRI or without.
    Isulad,
    /// BuildKit.
    BuildKit,
    /// Nothing recognized: a shell, or an engine without marks.
    Plain,
}

impl Engine {
    /// As logs, metrics and the configuration call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Ctr => "ctr",
            Self::Nerdctl => "nerdctl",
            Self::CriO => "cri-o",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::CriDockerd => "cri-dockerd",
            Self::Isulad => "isulad",
            Self::BuildKit => "buildkit",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is the pod's sandbox.
    Sandbox,
    /// It is in a pod that has a sandbox container.
    Member,
    /// It is in a pod that has none: the pod is made up, begins with the first of its containers and ends with the last.
    Shared,
    /// The pod is made up, and begins and ends with this container.
    Alone,
}

/// A pod's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Id of the pod.
    pub id: String,
    /// Id of its sandbox container, if the pod has one and it is known.
    ///
    /// It is the pod's id nearly everywhere. Not under Podman, where a member may know nothing else of its pod (`pod.id` is the sandbox's
    /// then): the pod of the container of this id is the one that is meant, if there is such a container.
    pub sandbox: String,
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
    /// The runtime's name among those that the engine has.
    pub runtime_handler: String,
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
    /// Annotations of the container that its document does not have.
    pub annotations: Map,
    /// Name of its image.
    pub image: String,
    /// Where more is known.
    pub source: Option<Source>,
}

/// Where an engine keeps what its document does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files of dockerd, for [`docker::complete`].
    Docker {
        /// Directories that may hold `config.v2.json` and `hostconfig.json` of this container, the most likely first.
        dirs: Vec<PathBuf>,
    },
    /// containerd's API, for [`containerd::complete`].
    Containerd {
        /// Its gRPC socket.
        socket: PathBuf,
        /// The namespace in which it has the container.
        namespace: String,
    },
    /// Lists of containers/storage, for [`podman::complete`].
    Podman {
        /// Files, the most likely first; any may be absent.
        lists: Vec<PathBuf>,
    },
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
