//! [`ApplyError`]: reasons why an adjustment cannot be applied.

use crate::cdi::error::CdiError;
use crate::context::Propagation;
use crate::json::wrong_type::WrongType;
use nri_api::field_name;
use nri_api::proto::Field;

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
    #[error("unknown {} {name:?}", field_name(*field))]
    UnknownClass {
        /// The block I/O class or the RDT class.
        field: Field,
        /// Its name.
        name: String,
    },
    /// A class whose definition is not a JSON object.
    #[error("definition of {} {name:?} is {found}, not an object", field_name(*field))]
    BrokenClass {
        /// The block I/O class or the RDT class.
        field: Field,
        /// Its name.
        name: String,
        /// Type of the definition.
        found: String,
    },
    /// A value that no runtime accepts.
    #[error("{} {value:?} {why}", field_name(*field))]
    Invalid {
        /// Field of the adjustment.
        field: Field,
        /// Key of the entry that the plugin set.
        value: String,
        /// Reason.
        why: &'static str,
    },
    /// A value that an enumeration of this version of the protocol lacks.
    #[error("{} {part} has the unknown value {value}", field_name(*field))]
    UnknownValue {
        /// Field of the adjustment.
        field: Field,
        /// Part of the field.
        part: &'static str,
        /// Number on the wire.
        value: i32,
    },
    /// A mount option needs a propagation that the source of the mount does not have.
    #[error(
        "mounts[{destination}]: propagation of {mount_source:?} is {found}, but {wanted} needs \
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
        "mounts[{destination}]: propagation of {mount_source:?} is unknown, but {wanted} depends \
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
    #[error("cannot inject cdi_devices")]
    Cdi(#[from] CdiError),
}

impl ApplyError {
    /// Returns the fields in question, each with the key of the entry if its field has keys. Empty
    /// if the OCI config of the engine is at fault.
    pub fn fields(&self) -> Vec<(Field, Option<&str>)> {
        match self {
            Self::OciConfig { .. } => Vec::new(),
            Self::UnknownClass { field, .. }
            | Self::BrokenClass { field, .. }
            | Self::UnknownValue { field, .. } => vec![(*field, None)],
            Self::Invalid { field, value, .. } => vec![(*field, Some(value))],
            Self::Propagation { destination, .. }
            | Self::UnknownPropagation { destination, .. } => {
                vec![(Field::Mounts, Some(destination))]
            }
            Self::Cdi(error) => {
                error.devices().into_iter().map(|name| (Field::CdiDevices, Some(name))).collect()
            }
        }
    }
}

/// Returns the conversion of a [`WrongType`] to an error that names the adjusted `field`.
pub(crate) fn in_field(field: &'static str) -> impl Fn(WrongType) -> ApplyError {
    move |source| ApplyError::OciConfig { field, source }
}
