//! Errors of setting resources of a container that exists.

use crate::{
    cgroup::files::Drift,
    host::{classes::ClassError, runtime::RuntimeError},
    state::{status::ContainerStatus, store::StoreError},
};
use nri_spec::capability::UnsupportedFields;
use std::path::PathBuf;

/// Resources that cannot be set, or are not effective.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// Plugins know no container by this id.
    #[error("no such container")]
    UnknownContainer,
    /// The container is not one that can be updated now.
    #[error("the container is {}", .0.name())]
    Status(ContainerStatus),
    /// Fields that no runtime and no control group takes from a container that exists.
    #[error("a running container's {} cannot be updated", .0.join(", "))]
    NotUpdatable(Vec<&'static str>),
    /// In shadow mode no container is changed.
    #[error("nothing is changed in shadow mode")]
    Shadow,
    /// Another update of the same container takes too long.
    #[error("another update of the container does not end")]
    Busy,
    /// A block I/O or RDT class is not defined.
    #[error(transparent)]
    Class(#[from] ClassError),
    /// The RDT class is defined, and resctrl has no control group for it.
    #[error("RDT class {class:?}: {} does not exist", group.display())]
    NoRdtGroup {
        /// Name of the class.
        class: String,
        /// Directory of the control group.
        group: PathBuf,
    },
    /// The low-level runtime or the kernel cannot do what is requested.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFields),
    /// Controllers that this host does not have.
    #[error("the control groups of this host do not have {}", .0.join(", "))]
    NoController(Vec<String>),
    /// A file that the control groups of this host do not have.
    #[error("{field}: this host has no {}", file.display())]
    NoControlFile {
        /// Field of the resources.
        field: String,
        /// The file.
        file: PathBuf,
    },
    /// The control groups of the container were not seen at its creation.
    #[error("container cgroup unknown")]
    UnknownCgroup,
    /// The record cannot be written, so that the next `nrid` would not know of the update.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `update` of the low-level runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The control groups do not hold what plugins set.
    #[error("not effective: {}", listed(.0))]
    NotEffective(Vec<Drift>),
    /// Threads of the container are not in the control group of the RDT class.
    #[error("RDT class: threads of {container:?} cannot be moved")]
    RdtThreads {
        /// Id of the container.
        container: String,
    },
}

fn listed(drift: &[Drift]) -> String {
    drift.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
