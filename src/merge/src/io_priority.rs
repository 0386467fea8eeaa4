//! The I/O priority of the process, class and level together.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(asked.linux.io_priority.is_some(), Field::IoPriority)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.io_priority.is_some() {
        let (container, adjust) = merged.linux();
        container.io_priority.clone_from(&asked.linux.io_priority);
        adjust.io_priority.clone_from(&asked.linux.io_priority);
    }
}
