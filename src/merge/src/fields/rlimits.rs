//! Resource limits of the process, owned by type. A reply replaces the container's limit of the
//! same type.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::named::replace_or_push;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    requested.rlimits.iter().try_for_each(|l| claims.claim_key(Field::Rlimits, &l.type_))
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    replace_or_push(&mut merged.container.rlimits, &requested.rlimits, |limit| &limit.type_);
    merged.adjust.rlimits.extend_from_slice(&requested.rlimits);
}
