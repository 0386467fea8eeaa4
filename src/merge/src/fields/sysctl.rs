//! Kernel parameters (sysctls). Each name has one owner, the plugin that set it.

use crate::error::MergeError;
use crate::marked::{Keys, overlay_map};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&requested.linux.sysctl).claim(Field::Sysctl, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if !requested.linux.sysctl.is_empty() {
        let (container, adjust) = merged.linux();
        overlay_map(&requested.linux.sysctl, &mut container.sysctl, &mut adjust.sysctl);
    }
}
