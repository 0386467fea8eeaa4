//! Recognizes the engine that wrote a bundle, the container's pod, and the names of both container
//! and pod; one file per engine.
//!
//! The crate does no I/O: [`identify`] decides by the OCI config and the arguments and environment
//! of the runtime. Unknown names stay empty; recognition cannot fail, since a missing name must not
//! fail a container. If the engine stores more facts elsewhere (Docker's files, containerd's API,
//! Podman's lists), the [`Identity`] has a [`Source`]. The caller reads the source, passes the
//! bytes to the `complete` function of [`docker`], [`containerd`], [`cri_o`] or [`podman`], and
//! logs an error of that function, but does not fail the container.
//!
//! * **Sandboxes.** Plugins do not adjust sandbox containers. Therefore a container is recognized
//!   as a sandbox only by facts that the engine alone sets (id, bundle, cgroup, name), never by an
//!   annotation, label or argument that an image could set.
//! * **Engines.** Engine, namespace and pod are keys of policies and rules. The engine is therefore
//!   recognized by the path of the bundle first, which no user chooses (`layout`).
//! * **Synthetic pods.** A container without a pod gets a synthetic pod with its name, labels and
//!   annotations.
//! * **Limits.** JSON inside JSON strings has a size limit, and `serde_json` limits its depth.
//!   Paths are built only from absolute paths without `..`, in the layouts of engines, and from
//!   ids that are one path component.

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
mod layout;
mod nerdctl;
mod paths;
mod plain;
pub mod podman;
mod unreadable;

pub use clues::{Clues, Map};
pub use identity::{EngineKind, Identity, Pod, Role, Source};
pub use unreadable::Unreadable;

use layout::Layout;

/// Recognizes the engine, pod and names of a container.
///
/// The path of the bundle decides which engines it can be (`layout`). Engines that are recognized
/// by cgroups are tried before engines that are recognized by annotations.
pub fn identify(clues: &Clues<'_>) -> Identity {
    let identified = match Layout::of(clues) {
        Layout::Task(namespace) => docker::identify_task(clues, &namespace)
            .or_else(|| containerd::identify_cri(clues))
            .or_else(|| buildkit::identify_task(clues, &namespace))
            .or_else(|| nerdctl::identify(clues))
            .or_else(|| containerd::identify_task(clues)),
        Layout::Storage if cri_o::is_in_own_cgroup(clues) => cri_o::identify(clues),
        Layout::Storage => podman::identify(clues),
        Layout::Isulad => isulad::identify(clues),
        Layout::BuildKit => Some(buildkit::identify(clues)),
        Layout::Other => docker::identify(clues)
            .or_else(|| podman::identify(clues))
            .or_else(|| cri_o::identify(clues))
            .or_else(|| isulad::identify(clues))
            .or_else(|| containerd::identify_cri(clues))
            .or_else(|| nerdctl::identify(clues)),
    };
    identified.unwrap_or_else(|| plain::identify(clues))
}
