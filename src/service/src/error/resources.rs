//! Errors of updating the resources of an existing container.

use crate::{
    cgroup::files::Drift,
    host::{classes::ClassError, runtime::RuntimeError},
    state::{status::ContainerStatus, store::StoreError},
};
use nri_spec::{OciConfigError, capability::UnsupportedFields};
use std::{path::PathBuf, time::Duration};

/// Error of an update of resources.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// No container has this NRI id.
    #[error("no such container")]
    UnknownContainer,
    /// The container cannot be updated in this status.
    #[error("the container is {}", .0.name())]
    Status(ContainerStatus),
    /// Fields of an existing container that neither a runtime nor control groups can change, each
    /// with the plugin that set it.
    #[error("cannot update {} of an existing container", .0.join(", "))]
    NotUpdatable(Vec<String>),
    /// Shadow mode is on, in which no container is changed.
    #[error("shadow mode is on, the container was not updated")]
    Shadow,
    /// Another update of the same container holds the update lock for too long.
    #[error("another update of the container does not end")]
    Busy,
    /// A block I/O or RDT class is not defined.
    #[error(transparent)]
    Class(#[from] ClassError),
    /// The RDT class is defined, but resctrl has no control group for the class.
    #[error("{field} {class:?}: {} does not exist", group.display())]
    NoRdtGroup {
        /// Name of the field, with the plugin that set it.
        field: String,
        /// Name of the class.
        class: String,
        /// Directory of the control group.
        group: PathBuf,
    },
    /// The low-level runtime or the kernel does not support requested fields.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFields),
    /// The resources are nested too deeply for an OCI config.
    #[error("resources")]
    TooDeep(#[source] OciConfigError),
    /// Fields whose controllers are missing on this host, each with the plugin that set it.
    #[error("the cgroups of this host have no controller for {}", .0.join(", "))]
    NoController(Vec<String>),
    /// A control file is missing on this host.
    #[error("{field}: this host has no {}", file.display())]
    NoControlFile {
        /// Field of the resources that needs the file, with the plugin that set it.
        field: String,
        /// Path of the file.
        file: PathBuf,
    },
    /// The control groups of the container were not found at its creation.
    #[error("container cgroup unknown")]
    UnknownCgroup,
    /// The record cannot be written. The update is not made, since the next `nrid` would not know
    /// of it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `update` of the low-level runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An earlier `update` of the low-level runtime did not end.
    #[error(
        "the runtime's last update of the container did not end; nrid refuses updates by plugins \
         for {0:?} afterwards"
    )]
    RuntimeHung(Duration),
    /// The control groups do not hold the values of plugins.
    #[error("not effective: {}", listed(.0))]
    NotEffective(Vec<Drift>),
    /// Threads of the container cannot be moved to the control group of the RDT class.
    #[error("rdt_class: threads of {container:?} cannot be moved")]
    RdtThreads {
        /// Id of the container.
        container: String,
    },
}

fn listed(drift: &[Drift]) -> String {
    drift.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
