//! The cgroups path. Empty means: not adjusted.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(!asked.linux.cgroups_path.is_empty(), Field::CgroupsPath)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if !asked.linux.cgroups_path.is_empty() {
        let (container, adjust) = merged.linux();
        container.cgroups_path.clone_from(&asked.linux.cgroups_path);
        adjust.cgroups_path.clone_from(&asked.linux.cgroups_path);
    }
}
