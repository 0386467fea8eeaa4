//! OCI runtime documents: kept as they are, read as NRI messages, and changed by NRI adjustments.
//!
//! Start from [`OciConfig`], then [`to_container`] (what a plugin sees) and [`apply`] (what a plugin
//! asked for). For `update` there are [`resources_to_nri`], [`merge_resources`], [`changed`] and
//! [`overlay`]. [`cdi::CdiRegistry`], [`BlockIoClasses`] and [`RdtClasses`] turn
//! configuration that somebody else has read into what [`ApplyContext`] asks for.
//! [`capability::check`] tells what of an adjustment the real runtime cannot do.
//!
//! * **Lossless.** A document is untyped JSON with its key order and the text of its numbers. What
//!   an adjustment does not name is the same before and after, unknown fields included; `null` is
//!   never written. A value that is set to what it already is keeps its text.
//! * **Total.** Each field of an adjustment is applied or refused by name. Nothing here panics,
//!   whatever the bytes.
//! * **Pure.** No file, clock, environment or thread: what depends on the host (classes, CDI
//!   devices, mount propagation) is asked of [`ApplyContext`], and a context that knows nothing
//!   makes such an adjustment an error.
//!
//! A merged adjustment follows upstream's convention: an entry whose key, path, destination or type
//! begins with `-` removes, and stands beside entries that set. Where both are there for one key
//! the setting wins, in whatever order they stand. An empty string, list or message is "not set",
//! as in protocol buffers.
//!
//! A file per group of fields, `read` for OCI to NRI and `apply` for the way back, in the order of
//! `apply::GROUPS`. Which plugin may set what is not decided here but in `nri-merge`.

#![forbid(unsafe_code)]

mod apply;
pub mod capability;
pub mod cdi;
mod container;
mod context;
mod error;
mod fields;
mod json;
mod oci_config;
mod resources;

pub use apply::{Applied, apply};
pub use container::{ContainerImage, ContainerInfo, to_container};
pub use context::{ApplyContext, CdiResolver, HostDevice, HostDeviceKind, Propagation};
pub use error::ApplyError;
pub use json::number::same;
pub use json::wrong_type::WrongType;
pub use oci_config::{
    MAX_DEPTH, MAX_OCI_CONFIG, OciConfig, OciConfigError, OciMount, OciNamespace,
};
pub use resources::blockio_classes::{BlockDevices, BlockIoClasses, InvalidBlockIoClass};
pub use resources::convert::{merge_blockio_class, merge_resources, resources_to_nri};
pub use resources::diff::{changed, overlay};
pub use resources::rdt_classes::RdtClasses;
