//! [`Identity`]: engine, pod and names of a container.

use crate::{
    cgroup,
    clues::{Clues, Map},
};
use std::{fmt, path::PathBuf};

/// The engines that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineKind {
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

impl EngineKind {
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

impl fmt::Display for EngineKind {
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
    /// It is in a pod that has none, or need not have one: unless the sandbox is known, the pod is
    /// made up, begins with the first of its containers and ends with the last.
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
    /// It is the pod's id nearly everywhere. Not under Podman, where a member may know nothing else
    /// of its pod (`pod.id` is the sandbox's then): the pod of the container of this id is the one
    /// that is meant, if there is such a container.
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
    pub engine: EngineKind,
    /// What it is to its pod.
    pub role: Role,
    /// The pod.
    pub pod: Pod,
    /// The container's name; its id where the engine keeps the name elsewhere.
    pub name: String,
    /// The container's labels.
    pub labels: Map,
    /// Annotations that the engine keeps of the container; its document may have some of them too,
    /// and others.
    pub annotations: Map,
    /// Name of its image.
    pub image: String,
    /// Where more is known.
    pub source: Option<Source>,
}

impl Identity {
    /// A container that is a pod of its own; what has no name yet is called by its id.
    pub(crate) fn alone(engine: EngineKind, clues: &Clues<'_>) -> Self {
        Self {
            engine,
            role: Role::Alone,
            pod: Pod {
                id: clues.id.to_owned(),
                name: clues.id.to_owned(),
                annotations: clues.annotations.clone(),
                cgroup_parent: cgroup::parent(clues.cgroups_path),
                ..Pod::default()
            },
            name: clues.id.to_owned(),
            labels: Map::new(),
            annotations: Map::new(),
            image: String::new(),
            source: None,
        }
    }
}

/// Where an engine keeps what its document does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files of dockerd, for [`docker::complete`](crate::docker::complete).
    Docker {
        /// Directories that may hold `config.v2.json` and `hostconfig.json` of this container, the
        /// most likely first.
        dirs: Vec<PathBuf>,
    },
    /// containerd's API, for [`containerd::complete`](crate::containerd::complete).
    Containerd {
        /// Its gRPC socket.
        socket: PathBuf,
        /// The namespace in which it has the container.
        namespace: String,
    },
    /// The document of a sandbox of CRI-O, for [`cri_o::complete`](crate::cri_o::complete).
    CriO {
        /// The file.
        sandbox: PathBuf,
    },
    /// Lists of containers/storage, for [`podman::complete`](crate::podman::complete).
    Podman {
        /// Files, the most likely first; any may be absent.
        lists: Vec<PathBuf>,
    },
}
