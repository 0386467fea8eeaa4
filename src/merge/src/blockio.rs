//! The block I/O class. The empty name is a value: it takes the container out of any class.

use crate::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.each([(asked.blockio_class.is_some(), Field::BlockioClass)])
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    if asked.blockio_class.is_some() {
        into.blockio_class.clone_from(&asked.blockio_class);
    }
}
