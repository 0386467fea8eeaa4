//! I/O priority of the process (class and level), owned as a whole.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(requested.linux.io_priority.is_some(), Field::IoPriority)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.io_priority.is_some() {
        let (container, adjust) = merged.linux();
        container.io_priority.clone_from(&requested.linux.io_priority);
        adjust.io_priority.clone_from(&requested.linux.io_priority);
    }
}
