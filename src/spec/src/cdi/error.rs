//! Errors of CDI specifications and of the injection of their devices.

use crate::json::wrong_type::WrongType;

/// A CDI device that cannot be injected, or a specification file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CdiError {
    /// A device name that is not of the form `vendor.com/class=name`.
    #[error("CDI device name {name:?} {why}")]
    InvalidName {
        /// The name.
        name: String,
        /// Reason.
        why: &'static str,
    },
    /// Devices that no specification defines.
    #[error("no CDI specification defines {}", names.join(", "))]
    Unresolvable {
        /// Names of the devices.
        names: Vec<String>,
    },
    /// A device that two files of the same priority define.
    #[error("CDI device {name} is defined in both {} and {}", files[0], files[1])]
    Conflict {
        /// The device.
        name: String,
        /// The files.
        files: [String; 2],
    },
    /// A specification file that was skipped.
    #[error("CDI specification {path}")]
    Spec {
        /// The file.
        path: String,
        /// Reason.
        #[source]
        source: InvalidCdiSpec,
    },
    /// A device node that is not on the host, and of which the specification does not give both the
    /// type and the major number (for a FIFO, the type).
    #[error("CDI device node {path:?} is not on the host")]
    UnknownDevice {
        /// Path on the host.
        path: String,
    },
    /// A device node whose type on the host differs from its type in the specification.
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

impl CdiError {
    /// Returns the names of the devices in question, as far as the error knows them.
    pub fn devices(&self) -> Vec<&str> {
        match self {
            Self::InvalidName { name, .. } | Self::Conflict { name, .. } => vec![name],
            Self::Unresolvable { names } => names.iter().map(String::as_str).collect(),
            Self::Spec { .. } | Self::UnknownDevice { .. } | Self::DeviceKind { .. } => Vec::new(),
        }
    }
}

/// Error in a CDI specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCdiSpec {
    /// A field has a wrong type, or is not a known field.
    #[error(transparent)]
    Form(#[from] WrongType),
    /// An unknown version.
    #[error("version {version:?} is unknown")]
    Version {
        /// `cdiVersion`.
        version: String,
    },
    /// A feature that is newer than the declared version.
    #[error("version {declared} does not support {feature}, which needs {needed}")]
    NeedsVersion {
        /// `cdiVersion`.
        declared: String,
        /// Feature.
        feature: &'static str,
        /// First version with the feature.
        needed: &'static str,
    },
    /// An invalid value.
    #[error("{field} {value:?} {why}")]
    Invalid {
        /// Field.
        field: &'static str,
        /// Its value.
        value: String,
        /// Reason.
        why: &'static str,
    },
}
