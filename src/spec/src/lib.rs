//! The OCI config (`config.json`): kept lossless, converted to NRI messages, and changed by NRI
//! adjustments.
//!
//! Start from [`OciConfig`], then [`to_container`] (the container as plugins see it), [`apply`]
//! (the adjustment of plugins) and [`agreed_container`] (the container after it). For `update` are
//! [`resources_to_nri`], [`merge_resources`], [`changed`] and [`overlay`]. [`config_changes`] says
//! what differs, by field. [`LimitChange`] decides which limit of swap follows from one of memory.
//! [`cdi::CdiRegistry`],
//! [`BlockIoClasses`] and [`RdtClasses`] parse configuration files of the host for
//! [`ApplyContext`]. [`capability::check`] finds the parts of an adjustment that the low-level
//! runtime does not support.
//!
//! * **Lossless.** An OCI config is untyped JSON with its key order and the text of its numbers.
//!   Fields that an adjustment does not name, including unknown ones, are unchanged; `null` is
//!   never written. A value that does not change keeps its text.
//! * **Total.** Each field of an adjustment is applied or refused by name. No input makes this
//!   crate panic.
//! * **Pure.** The crate uses no file, clock, environment or thread. Facts about the host (classes,
//!   CDI devices, mount propagation) come from [`ApplyContext`]. An adjustment is an error if it
//!   needs a fact that the context lacks.
//!
//! A merged adjustment follows upstream's convention: an entry whose key, path, destination or type
//! begins with `-` removes, other entries set. If a key is both removed and set, it is set,
//! whatever the order of the entries. An empty string, list or message means not set, as in
//! protocol buffers.
//!
//! Each group of fields has a file: its `read` converts the OCI config to NRI, its `apply` applies
//! an adjustment, in the order of `fields::GROUPS`. Conflicts between plugins are decided in
//! `nri-merge`.

#![forbid(unsafe_code)]

mod agreed_container;
mod apply;
pub mod capability;
pub mod cdi;
mod changes;
mod container;
mod context;
mod error;
pub mod facts;
mod fields;
mod json;
mod oci_config;
mod relative_paths;
mod resources;

pub use agreed_container::agreed_container;
pub use apply::{Applied, apply};
pub use changes::{ChangedField, config_changes, resource_changes};
pub use container::{ContainerImage, ContainerInfo, to_container};
pub use context::{ApplyContext, CdiResolver, HostDevice, HostDeviceKind, Propagation};
pub use error::ApplyError;
pub use json::number::same_value;
pub use json::wrong_type::WrongType;
pub use oci_config::{
    MAX_DEPTH, MAX_OCI_CONFIG, MAX_VALUES, OciConfig, OciConfigError, OciMount, OciNamespace,
};
pub use relative_paths::resolve_paths;
pub use resources::blockio_classes::{BlockDevices, BlockIoClasses, InvalidBlockIoClass};
pub use resources::convert::{merge_blockio_class, merge_resources, resources_to_nri};
pub use resources::diff::{changed, overlay};
pub use resources::idle::{
    idle_entry, idle_entry_name, idle_entry_to_field, idle_field_to_entry, take_shares,
};
pub use resources::rdt_classes::RdtClasses;
pub use resources::swap::{LimitChange, MemoryLimits};
