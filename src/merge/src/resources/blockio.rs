//! Block I/O class. The empty name is a value: it removes the container from its class.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.claim_fields([(requested.blockio_class.is_some(), Field::BlockioClass)])
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    if requested.blockio_class.is_some() {
        into.blockio_class.clone_from(&requested.blockio_class);
    }
}
