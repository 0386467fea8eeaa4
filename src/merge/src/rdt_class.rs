//! The RDT class. The empty name is a value: it takes the container out of any class.

use crate::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    claims.each([(asked.rdt_class.is_some(), Field::RdtClass)])
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    if asked.rdt_class.is_some() {
        into.rdt_class.clone_from(&asked.rdt_class);
    }
}
