//! Seccomp policy, owned as a whole.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(requested.linux.seccomp_policy.is_some(), Field::SeccompPolicy)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.seccomp_policy.is_some() {
        let (container, adjust) = merged.linux();
        container.seccomp_policy.clone_from(&requested.linux.seccomp_policy);
        adjust.seccomp_policy.clone_from(&requested.linux.seccomp_policy);
    }
}
