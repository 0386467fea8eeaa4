//! Scheduling attributes of the process, owned as a whole.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(requested.linux.scheduler.is_some(), Field::LinuxSched)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.scheduler.is_some() {
        let (container, adjust) = merged.linux();
        container.scheduler.clone_from(&requested.linux.scheduler);
        adjust.scheduler.clone_from(&requested.linux.scheduler);
    }
}
