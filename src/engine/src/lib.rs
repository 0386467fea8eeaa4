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
mod clues;
pub mod containerd;
mod cri;
mod cri_dockerd;
pub mod cri_o;
pub mod docker;
mod identity;
mod isulad;
mod kubernetes;
mod nerdctl;
mod paths;
mod plain;
pub mod podman;
mod unreadable;

pub use clues::{Clues, Map};
pub use identity::{EngineKind, Identity, Pod, Role, Source};
pub use unreadable::Unreadable;

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
