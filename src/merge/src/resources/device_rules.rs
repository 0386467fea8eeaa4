//! Rules of the device cgroup. The rules of all plugins are appended in call order, and have no
//! owner.
//!
//! Only adjustments set rules; rules in an update are reported as [`crate::Ignored`].

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
