//! Rules of the device cgroup. Those of each plugin are appended in call order, without an owner.
//!
//! They are set at creation only; in an update they are reported as [`crate::Ignored`].

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::ContainerAdjustment;

pub(crate) fn claim(_: &ContainerAdjustment, _: &mut Claims<'_>) -> Result<(), MergeError> {
    Ok(())
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let rules = &requested.linux.resources.devices;
    if !rules.is_empty() {
        let (container, adjust) = merged.linux();
        container.resources.mut_or_insert_default().devices.extend_from_slice(rules);
        adjust.resources.mut_or_insert_default().devices.extend_from_slice(rules);
    }
}
