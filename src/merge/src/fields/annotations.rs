//! Annotations, owned by key.

use crate::error::MergeError;
use crate::marked::{Keys, overlay_map};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&requested.annotations).claim(Field::Annotations, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    overlay_map(
        &requested.annotations,
        &mut merged.container.annotations,
        &mut merged.adjust.annotations,
    );
}
