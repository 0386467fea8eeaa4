//! Device nodes, owned by path. Rules of the device cgroup are in
//! [`crate::resources::device_rules`].

use crate::error::MergeError;
use crate::marked::{Keys, removal};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, LinuxDevice};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    keys(requested).claim(Field::Devices, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.devices.is_empty() {
        return;
    }
    let keys = keys(requested);
    let (container, adjust) = merged.linux();
    container.devices.retain(|d| !keys.changes(&d.path));
    adjust.devices.retain(|d| !keys.changes_key_of(&d.path));
    for path in &keys.removed {
        adjust.devices.push(LinuxDevice { path: removal(path), ..Default::default() });
    }
    for device in
        requested.linux.devices.iter().filter(|d| matches!(Marked::parse(&d.path), Marked::Set(_)))
    {
        container.devices.push(device.clone());
        adjust.devices.push(device.clone());
    }
}

fn keys(requested: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(requested.linux.devices.iter().map(|d| d.path.as_str()))
}
