//! Kernel parameters, owned by name.

use crate::marked::{Keys, overlay_map};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&asked.linux.sysctl).claim(Field::Sysctl, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if !asked.linux.sysctl.is_empty() {
        let (container, adjust) = merged.linux();
        overlay_map(&asked.linux.sysctl, &mut container.sysctl, &mut adjust.sysctl);
    }
}
