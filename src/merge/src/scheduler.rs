//! The scheduling attributes of the process, as a whole.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(asked.linux.scheduler.is_some(), Field::LinuxSched)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.scheduler.is_some() {
        let (container, adjust) = merged.linux();
        container.scheduler.clone_from(&asked.linux.scheduler);
        adjust.scheduler.clone_from(&asked.linux.scheduler);
    }
}
