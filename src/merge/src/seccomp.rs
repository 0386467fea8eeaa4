//! The seccomp policy, as a whole.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(asked.linux.seccomp_policy.is_some(), Field::SeccompPolicy)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.seccomp_policy.is_some() {
        let (container, adjust) = merged.linux();
        container.seccomp_policy.clone_from(&asked.linux.seccomp_policy);
        adjust.seccomp_policy.clone_from(&asked.linux.seccomp_policy);
    }
}
