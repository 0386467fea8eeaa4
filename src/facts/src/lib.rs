//! Facts about a container that depend on the host: the files of the host that its mounts show, and
//! the namespaces of the host in which it is. What follows from `config.json` alone is in
//! `nri_spec::facts`.
//!
//! A `config.json` names paths, which have to be absolute, and each is looked up where the runtime
//! would. A look-up may hang with its file system: callers that must not wait make it in a child.
//! Start from [`MountSources`] and [`host_namespaces`].

#![forbid(unsafe_code)]

mod mount_sources;
mod mounts;
mod namespaces;

pub use mount_sources::{
    Access, HostFiles, HostFilesKind, MountSource, Way, resolve, resolve_here,
};
pub use mounts::MountSources;
pub use namespaces::{NamespaceId, host_namespaces, namespace_paths};
