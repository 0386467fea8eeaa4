//! [`ApplyError`]: reasons why an adjustment cannot be applied.

use crate::cdi::error::CdiError;
use crate::context::Propagation;
use crate::json::wrong_type::WrongType;

/// An adjustment that cannot be applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The document has another type where the adjustment has to go.
    #[error("cannot adjust {field}: the document does not follow the specification")]
    OciConfig {
        /// Group of fields that was being adjusted.
        field: &'static str,
        /// Which field of the document.
        #[source]
        source: WrongType,
    },
    /// A block I/O or RDT class that nothing defines.
    #[error("unknown {field} {name:?}")]
    UnknownClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
    },
    /// A class whose definition is no JSON object.
    #[error("definition of {field} {name:?} is {found}, not an object")]
    BrokenClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
        /// What it is.
        found: String,
    },
    /// A value that no runtime could take.
    #[error("{field} {value:?} {why}")]
    Invalid {
        /// Field of the adjustment.
        field: &'static str,
        /// What the plugin gave.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An enumeration value that this version does not know.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// Field of the adjustment.
        field: &'static str,
        /// Number on the wire.
        value: i32,
    },
    /// A mount asks for a propagation that its source does not have.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is {found}, {wanted} needs {needed}"
    )]
    Propagation {
        /// Where it goes.
        destination: String,
        /// Where it comes from.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
        /// What would do.
        needed: &'static str,
        /// What it has.
        found: Propagation,
    },
    /// The propagation of the source of a mount could not be found out.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is not known, but {wanted} depends on it"
    )]
    UnknownPropagation {
        /// Where it goes.
        destination: String,
        /// Where it comes from.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
    },
    /// CDI devices that cannot be injected.
    #[error("cannot inject CDI devices")]
    Cdi(#[from] CdiError),
}

/// Names the group of fields in whose place the OCI config has a wrong type.
pub(crate) fn in_field(field: &'static str) -> impl Fn(WrongType) -> ApplyError {
    move |source| ApplyError::OciConfig { field, source }
}
