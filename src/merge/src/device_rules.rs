//! Rules of the device cgroup: each plugin's are appended, in the order of the plugins; nobody owns
//! them.
//!
//! Only at creation: an update has no say in them (`Ignored` names a plugin that tries).

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::ContainerAdjustment;

pub(crate) fn claim(_: &ContainerAdjustment, _: &mut Claims<'_>) -> Result<(), MergeError> {
    Ok(())
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let rules = &asked.linux.resources.devices;
    if !rules.is_empty() {
        let (container, adjust) = merged.linux();
        container.resources.mut_or_insert_default().devices.extend_from_slice(rules);
        adjust.resources.mut_or_insert_default().devices.extend_from_slice(rules);
    }
}
