//! Memory policy, owned as a whole. The protocol's `Container` has no such field, so later plugins
//! do not see it.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(requested.linux.memory_policy.is_some(), Field::MemoryPolicy)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.memory_policy.is_some() {
        let (_, adjust) = merged.linux();
        adjust.memory_policy.clone_from(&requested.linux.memory_policy);
    }
}
