//! Which engine wrote a bundle, which pod a container belongs to, and their names: a file per
//! engine.
//!
//! Pure: [`identify`] decides from what the OCI document and the call of the runtime hold. What is
//! not there stays empty; nothing here fails, since a container must not fail because its name
//! could not be found. Where an engine keeps more elsewhere (Docker's files, containerd's API,
//! Podman's lists), the [`Identity`] names the [`Source`]; whoever reads it hands the bytes to the
//! `complete` function of [`docker`], [`containerd`] or [`podman`], and an error of those is a
//! reason to log, no more.
//!
//! * **Who decides.** A sandbox is no container to plugins: nothing is asked about it. Therefore no
//!   annotation, label or argument that an image could bring makes one; there is always something
//!   besides that only the engine sets (the id, the bundle, the cgroup, the name).
//! * **Made-up pods.** A container that is alone is a pod of its own, with its names, labels and
//!   annotations.
//! * **Bounds.** JSON inside of JSON is parsed up to a size, and `serde_json` bounds its depth.
//!   Paths are built from absolute ones without `..`, by engines' fixed layouts, for ids that are
//!   one ordinary component.

#![forbid(unsafe_code)]

mod buildkit;
mod cgroup;
pub mod containerd;
mod cri;
mod cri_dockerd;
pub mod cri_o;
pub mod docker;
mod isulad;
mod kubernetes;
mod nerdctl;
mod paths;
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

impl<'a> Clues<'a> {
    /// An annotation that is there and not empty.
    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The annotations whose keys pass.
    fn annotations_if(&self, pass: impl Fn(&str) -> bool) -> Map {
        self.annotations
            .iter()
            .filter(|(k, _)| pass(k))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }
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
    pub engine: Engine,
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
    fn alone(engine: Engine, clues: &Clues<'_>) -> Self {
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
    /// Files of dockerd, for [`docker::complete`].
    Docker {
        /// Directories that may hold `config.v2.json` and `hostconfig.json` of this container, the
        /// most likely first.
        dirs: Vec<PathBuf>,
    },
    /// containerd's API, for [`containerd::complete`].
    Containerd {
        /// Its gRPC socket.
        socket: PathBuf,
        /// The namespace in which it has the container.
        namespace: String,
    },
    /// The document of a sandbox of CRI-O, for [`cri_o::complete`].
    CriO {
        /// The file.
        sandbox: PathBuf,
    },
    /// Lists of containers/storage, for [`podman::complete`].
    Podman {
        /// Files, the most likely first; any may be absent.
        lists: Vec<PathBuf>,
    },
}

/// Decides who a container is.
///
/// Engines that are known by paths and cgroups come before those that are known by annotations,
/// which users of the former may set.
pub fn identify(clues: &Clues<'_>) -> Identity {
    docker::identify(clues)
        .or_else(|| podman::identify(clues))
        .or_else(|| cri_o::identify(clues))
        .or_else(|| isulad::identify(clues))
        .or_else(|| containerd::identify_cri(clues))
        .or_else(|| nerdctl::identify(clues))
        .or_else(|| buildkit::identify(clues))
        .or_else(|| containerd::identify_task(clues))
        .unwrap_or_else(|| plain::identify(clues))
}
