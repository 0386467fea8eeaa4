//! Recognition of the engine that wrote a bundle, of the container's pod, and of their names; a
//! file per engine.
//!
//! Pure: [`identify`] decides by the OCI config and the arguments and environment of the runtime.
//! Unknown names stay empty; recognition cannot fail, since a container must not fail for want of a
//! name. If the engine has more facts elsewhere (Docker's files, containerd's API, Podman's lists),
//! the [`Identity`] has a [`Source`]; its reader passes the bytes to the `complete` function of
//! [`docker`], [`containerd`], [`cri_o`] or [`podman`], whose errors are logged only.
//!
//! * **Sandboxes.** Plugins are not requested to adjust a sandbox container. So a container is a
//!   sandbox only by facts that the engine alone sets (id, bundle, cgroup, name), never by an
//!   annotation, label or argument that an image could have.
//! * **Synthetic pods.** A container without a pod gets one of its own, with its name, labels and
//!   annotations.
//! * **Bounds.** JSON in strings of JSON is parsed up to a size, and `serde_json` bounds its depth.
//!   Paths are built from absolute ones without `..`, in the layouts of engines, for ids that are
//!   one path component.

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

/// Recognizes the engine, pod and names of a container.
///
/// Engines that are recognized by paths and cgroups come before those that are recognized by
/// annotations, which users of the former can set.
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
