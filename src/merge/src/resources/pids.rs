//! Limit of the pids controller.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.claim_fields([(requested.pids.is_some(), Field::PidsLimit)])
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    if requested.pids.is_some() {
        into.pids.clone_from(&requested.pids);
    }
}
