//! The NRI protocol as plain data: its messages, event mask, plugin identities, removal markers and
//! resource fields.
//!
//! This crate does no I/O and decides nothing: `nri-merge` merges, and `nri-wire` transports. Start
//! from [`proto`], the generated messages, and [`PluginId`], the identity of their sender.

#![deny(unsafe_code)]

mod event;
mod field;
mod field_row;
mod field_table;
mod optional;
mod packed;
mod plugin;
mod removal;
mod resource_field;

mod generated {
    #[rustfmt::skip]
    pub(crate) mod fields;
    #[allow(missing_docs, unreachable_pub, rust_2018_idioms, unsafe_code)]
    #[allow(clippy::all, clippy::unwrap_used)]
    #[rustfmt::skip]
    pub(crate) mod nri;
}

/// The generated messages of `proto/nri.proto`.
pub mod proto {
    pub use crate::generated::nri::*;
}

pub use event::{EventMask, UnknownEventName, UnknownEvents};
pub use field::{
    FIELDS, also_set_by, entry_name, field_kind, field_name, field_row, fields, full_name, set_by,
};
pub use field_row::{FieldKind, FieldRow, Form};
pub use optional::{Optional, opt};
pub use packed::{Packable, Packed};
pub use plugin::{InvalidPlugin, PluginId, PluginIndex, PluginName};
pub use removal::{Marked, removal_key};
pub use resource_field::{
    Access, Accessor, NO_PARTITION, PARTITION, PARTITION_FILES, RESOURCE_FIELDS, ResourceField,
    Update, fields_of, fields_of_file, is_resource, resource_field, undone_by,
};

/// Version of upstream NRI with this protocol, sent to plugins in `Configure`.
pub const NRI_VERSION: &str = "v0.12.5";

/// Environment of a hook for which a plugin or a CDI specification sets none. If a hook has no
/// environment in `config.json`, runc gives `createContainer` hooks the variables of the container.
/// These hooks run as root on the host, so an image could load code into them (`LD_PRELOAD`,
/// CVE-2025-23266). Other hooks get the engine's variables.
pub const HOOK_ENVIRONMENT: &str =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Size limit of a ttrpc message in bytes, without its 10-byte header, as in the ttrpc libraries.
pub const MAX_MESSAGE: usize = 4 << 20;

/// Largest size of a container in bytes: that of a message, with room for what is beside it. A
/// larger one would not reach plugins that connect later.
pub const MAX_CONTAINER: usize = MAX_MESSAGE - (64 << 10);
