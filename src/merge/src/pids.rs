//! The limit of the pids controller.

use crate::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.each([(asked.pids.is_some(), Field::PidsLimit)])
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    if asked.pids.is_some() {
        into.pids.clone_from(&asked.pids);
    }
}
