//! What can be wrong with CDI specifications and with the use of their devices.

use crate::json::wrong_type::WrongType;

/// A CDI device that cannot be injected, or a specification file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CdiError {
    /// Not of the form `vendor.com/class=name`.
    #[error("CDI device name {name:?} {why}")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No specification defines these.
    #[error("no CDI specification defines {}", names.join(", "))]
    Unresolvable {
        /// All that are missing.
        names: Vec<String>,
    },
    /// Two files of the same priority define it.
    #[error("CDI device {name} is defined in both {} and {}", files[0], files[1])]
    Conflict {
        /// The device.
        name: String,
        /// The files.
        files: [String; 2],
    },
    /// A specification file that is left out.
    #[error("CDI specification {path}")]
    Spec {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: InvalidCdiSpec,
    },
    /// A device node that is not on the host, and not described either.
    #[error("CDI device node {path:?} is not on the host")]
    UnknownDevice {
        /// Path on the host.
        path: String,
    },
    /// A device node that is of another kind than the specification says.
    #[error("CDI device node {path:?} is of type {found}, not {wanted}")]
    DeviceKind {
        /// Path on the host.
        path: String,
        /// Type in the specification.
        wanted: String,
        /// Type on the host.
        found: &'static str,
    },
}

/// What is wrong with a CDI specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCdiSpec {
    /// A field has a wrong type, or does not exist.
    #[error(transparent)]
    Form(#[from] WrongType),
    /// A version that does not exist, or not yet.
    #[error("version {version:?} is not known")]
    Version {
        /// `cdiVersion`.
        version: String,
    },
    /// Something newer than the version that is declared.
    #[error("version {declared} has no {feature}, which came with {needed}")]
    NeedsVersion {
        /// `cdiVersion`.
        declared: String,
        /// What it uses.
        feature: &'static str,
        /// Version that has it.
        needed: &'static str,
    },
    /// A value that is not allowed.
    #[error("{field} {value:?} {why}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
