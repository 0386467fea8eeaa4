//! Path of the cgroup. An empty path in a reply adjusts nothing.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(!requested.linux.cgroups_path.is_empty(), Field::CgroupsPath)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if !requested.linux.cgroups_path.is_empty() {
        let (container, adjust) = merged.linux();
        container.cgroups_path.clone_from(&requested.linux.cgroups_path);
        adjust.cgroups_path.clone_from(&requested.linux.cgroups_path);
    }
}
