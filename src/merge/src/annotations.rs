//! Annotations, owned by key.

use crate::marked::{Keys, overlay_map};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&asked.annotations).claim(Field::Annotations, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    overlay_map(
        &asked.annotations,
        &mut merged.container.annotations,
        &mut merged.adjust.annotations,
    );
}
