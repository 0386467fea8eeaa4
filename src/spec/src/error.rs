//! [`ApplyError`]: reasons why an adjustment cannot be applied.

use crate::cdi::error::CdiError;
use crate::context::Propagation;
use crate::json::wrong_type::WrongType;

/// An adjustment that cannot be applied; the OCI config is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A field of the OCI config has another type than the adjustment needs.
    #[error("cannot adjust {field}: OCI config does not follow the specification")]
    OciConfig {
        /// Group of fields of the adjustment.
        field: &'static str,
        /// The field of the OCI config.
        #[source]
        source: WrongType,
    },
    /// A block I/O or RDT class that is not defined.
    #[error("unknown {field} {name:?}")]
    UnknownClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
    },
    /// A class whose definition is not a JSON object.
    #[error("definition of {field} {name:?} is {found}, not an object")]
    BrokenClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
        /// Type of the definition.
        found: String,
    },
    /// A value that no runtime accepts.
    #[error("{field} {value:?} {why}")]
    Invalid {
        /// Field of the adjustment.
        field: &'static str,
        /// Value of the plugin.
        value: String,
        /// Reason.
        why: &'static str,
    },
    /// A value that an enumeration of this version of the protocol lacks.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// Field of the adjustment.
        field: &'static str,
        /// Number on the wire.
        value: i32,
    },
    /// A mount option needs a propagation that the source of the mount does not have.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is {found}, but {wanted} needs \
         {needed}"
    )]
    Propagation {
        /// Destination of the mount.
        destination: String,
        /// Source of the mount.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
        /// Propagation that would suffice.
        needed: &'static str,
        /// Propagation of the source.
        found: Propagation,
    },
    /// The propagation of the source of a mount is unknown.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is unknown, but {wanted} depends \
         on it"
    )]
    UnknownPropagation {
        /// Destination of the mount.
        destination: String,
        /// Source of the mount.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
    },
    /// CDI devices that cannot be injected.
    #[error("cannot inject CDI devices")]
    Cdi(#[from] CdiError),
}

/// Returns the conversion of a [`WrongType`] to an error that names the adjusted `field`.
pub(crate) fn in_field(field: &'static str) -> impl Fn(WrongType) -> ApplyError {
    move |source| ApplyError::OciConfig { field, source }
}
