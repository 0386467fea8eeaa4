//! Resource limits of the process, owned by type; a type that the container has already is
//! replaced.

use crate::named::replace_or_push;
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    asked.rlimits.iter().try_for_each(|l| claims.keyed(Field::Rlimits, &l.type_))
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    replace_or_push(&mut merged.container.rlimits, &asked.rlimits, |limit| &limit.type_);
    merged.adjust.rlimits.extend_from_slice(&asked.rlimits);
}
