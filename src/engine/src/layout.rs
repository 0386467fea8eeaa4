//! Layouts of bundles. The path of a bundle is the engine's: no user of an engine chooses it, while
//! annotations, labels, mounts and parents of cgroups are the user's with most of them. So the
//! layout decides which engines a container can be of, and only then other clues count.
//!
//! | layout | engines |
//! |---|---|
//! | `<state>/io.containerd.runtime.v2.task/<namespace>/<id>` | clients of containerd's API |
//! | `<root>/<driver>-containers/<id>/userdata` | Podman and CRI-O |
//! | `<graph>/engines/<runtime>/<id>` | iSulad |
//! | `<root>/executor/<id>`, with the root file system | BuildKit |
//! | any other | those who call the runtime by themselves |
//!
//! **containerd's namespace** tells its clients apart: that of CRI is `k8s.io`, that of Docker is
//! `moby`, with remapped users `moby-<uid>.<gid>`, and that of BuildKit is `buildkit`. Whoever may
//! call containerd's API chooses the namespace.
//!
//! **Podman and CRI-O** use the same library for their directories. The cgroup tells them apart:
//! its last name begins with `libpod` or `crio`, whatever its parent is.

use crate::{Clues, buildkit, containerd, isulad, podman};

/// Layout of a bundle's path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A task of containerd, in this namespace.
    Task(String),
    /// A directory of containers/storage.
    Storage,
    /// A directory of iSulad.
    Isulad,
    /// A directory of BuildKit's own executor.
    BuildKit,
    /// None of an engine.
    Other,
}

impl Layout {
    pub(crate) fn of(clues: &Clues<'_>) -> Self {
        if let Some((_, namespace)) = containerd::task(clues) {
            Self::Task(namespace)
        } else if podman::is_storage(clues) {
            Self::Storage
        } else if isulad::runtime(clues).is_some() {
            Self::Isulad
        } else if buildkit::is_executor_bundle(clues) {
            Self::BuildKit
        } else {
            Self::Other
        }
    }
}
