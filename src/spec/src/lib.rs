//! The OCI config (`config.json`): kept lossless, converted to NRI messages, and changed by NRI
//! adjustments.
//!
//! Start from [`OciConfig`], then [`to_container`] (the container as plugins see it) and [`apply`]
//! (the adjustment of plugins). For `update` there are [`resources_to_nri`], [`merge_resources`],
//! [`changed`] and [`overlay`]. [`cdi::CdiRegistry`], [`BlockIoClasses`] and [`RdtClasses`] parse
//! configuration files of the host for [`ApplyContext`]. [`capability::check`] finds the parts of
//! an adjustment that the low-level runtime does not support.
//!
//! * **Lossless.** An OCI config is untyped JSON with its key order and the text of its numbers.
//!   Fields that an adjustment does not name are the same before and after, unknown ones included;
//!   `null` is never written. A value that does not change keeps its text.
//! * **Total.** Each field of an adjustment is applied or refused by name. No input makes this
//!   crate panic.
//! * **Pure.** No file, clock, environment or thread: facts about the host (classes, CDI devices,
//!   mount propagation) come from [`ApplyContext`], and an adjustment that needs one which the
//!   context lacks is an error.
//!
//! A merged adjustment follows upstream's convention: an entry whose key, path, destination or type
//! begins with `-` removes, and may accompany entries that set. If there are both for one key, the
//! key is set, whatever their order. An empty string, list or message means not set, as in protocol
//! buffers.
//!
//! A file per group of fields, `read` for OCI to NRI and `apply` for the way back, in the order of
//! `apply::GROUPS`. Conflicts between plugins are decided in `nri-merge`.

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
