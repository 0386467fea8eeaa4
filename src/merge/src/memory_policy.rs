//! The memory policy, as a whole. A container as the protocol tells it has no such field, so later
//! plugins do not see it.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(asked.linux.memory_policy.is_some(), Field::MemoryPolicy)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.memory_policy.is_some() {
        let (_, adjust) = merged.linux();
        adjust.memory_policy.clone_from(&asked.linux.memory_policy);
    }
}
