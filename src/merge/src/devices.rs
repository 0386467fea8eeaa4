//! Device nodes, owned by path, and the rules of the device cgroup.

use crate::marked::{Keys, removal};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, LinuxDevice};

pub(crate) fn claim(asked: &ContainerAdjustment, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    keys(asked).claim(Field::Devices, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.devices.is_empty() {
        return;
    }
    let keys = keys(asked);
    let (container, adjust) = merged.linux();
    container.devices.retain(|d| !keys.touch(&d.path));
    adjust.devices.retain(|d| !keys.touch_marked(&d.path));
    for path in &keys.removed {
        adjust.devices.push(LinuxDevice { path: removal(path), ..Default::default() });
    }
    for device in asked.linux.devices.iter().filter(|d| matches!(Marked::parse(&d.path), Marked::Set(_))) {
        container.devices.push(device.clone());
        adjust.devices.push(device.clone());
    }
}

fn keys(asked: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(asked.linux.devices.iter().map(|d| d.path.as_str()))
}

/// Rules of the device cgroup: each plugin's are appended, in the order of the plugins; nobody owns them.
///
/// Only at creation: an update has no say in them (`Ignored` names a plugin that tries).
pub(crate) mod rules {
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
}
