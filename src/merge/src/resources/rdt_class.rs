//! RDT class. The empty name is a value: it removes the container from its class.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.claim_fields([(requested.rdt_class.is_some(), Field::RdtClass)])
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    if requested.rdt_class.is_some() {
        into.rdt_class.clone_from(&requested.rdt_class);
    }
}
