//! [`Identity`]: engine, pod and names of a container.

use crate::{
    cgroup,
    clues::{Clues, Map},
};
use std::{fmt, path::PathBuf};

/// Kind of the engine that created a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// containerd's CRI.
    Containerd,
    /// containerd without CRI: `ctr` or another client.
    Ctr,
    /// nerdctl.
    Nerdctl,
    /// CRI-O.
    CriO,
    /// Podman, or another user of libpod.
    Podman,
    /// Docker.
    Docker,
    /// Docker, called by cri-dockerd for Kubernetes.
    CriDockerd,
    /// iSulad, with or without CRI.
    Isulad,
    /// BuildKit.
    BuildKit,
    /// Not recognized: the runtime was called by hand, or by an engine without recognizable traces.
    Plain,
}

impl EngineKind {
    /// Returns the name in logs, metrics and the configuration.
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

/// Role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sandbox container of the pod.
    Sandbox,
    /// Member of a pod that has a sandbox container.
    Member,
    /// Member of a pod that may have no sandbox container: unless the sandbox is known, the pod is
    /// synthetic, starts with its first container and ends with the last.
    Shared,
    /// Only container of a synthetic pod, which starts and ends with the container.
    Alone,
}

/// Identity of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Id of the pod.
    pub id: String,
    /// Id of the sandbox container, if the pod has one and it is known.
    ///
    /// The value equals `id`, except under Podman, where pods have ids of their own. If the id of
    /// the infra container is the only trace of a member's pod, it is the value of both `id` and
    /// `sandbox`. The member then belongs to the pod of that container, if the container exists.
    pub sandbox: String,
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod in the orchestrator.
    pub uid: String,
    /// Namespace of the pod in the orchestrator.
    pub namespace: String,
    /// Labels of the pod.
    pub labels: Map,
    /// Annotations of the pod.
    pub annotations: Map,
    /// Parent cgroup of the containers.
    pub cgroup_parent: String,
    /// Name of the runtime in the configuration of the engine.
    pub runtime_handler: String,
}

/// Engine, pod and names of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The engine.
    pub engine: EngineKind,
    /// Role in the pod.
    pub role: Role,
    /// The pod.
    pub pod: Pod,
    /// Name of the container, or its id before the name was read from the engine.
    pub name: String,
    /// Labels of the container.
    pub labels: Map,
    /// Annotations from the engine's data; the OCI config may have others.
    pub annotations: Map,
    /// Name of the image.
    pub image: String,
    /// Source of further facts.
    pub source: Option<Source>,
}

impl Identity {
    /// Creates the identity of a container with a synthetic pod. The container id names both.
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

    /// Takes the container out of a pod to which it does not belong: it becomes the only one of a
    /// synthetic pod. `id` is the container's, and `annotations` are those of its OCI config.
    pub fn leave_pod(&mut self, id: &str, annotations: &Map) {
        self.role = Role::Alone;
        self.pod = Pod {
            id: id.to_owned(),
            name: self.name.clone(),
            labels: self.labels.clone(),
            annotations: annotations.clone(),
            cgroup_parent: std::mem::take(&mut self.pod.cgroup_parent),
            runtime_handler: std::mem::take(&mut self.pod.runtime_handler),
            ..Pod::default()
        };
    }
}

/// Source of facts that the OCI config lacks, in data of the engine.
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
        /// gRPC socket.
        socket: PathBuf,
        /// Namespace of the container.
        namespace: String,
    },
    /// OCI config of a sandbox of CRI-O, for [`cri_o::complete`](crate::cri_o::complete).
    CriO {
        /// Path of the file.
        sandbox: PathBuf,
    },
    /// Lists of containers/storage, for [`podman::complete`](crate::podman::complete).
    Podman {
        /// Paths of the lists, the most likely first; any list may be missing.
        lists: Vec<PathBuf>,
    },
}
