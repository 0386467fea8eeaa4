//! Device nodes, owned by path. The device cgroup is `device_rules`.

use crate::marked::{Keys, removal};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, LinuxDevice};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
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
    for device in
        asked.linux.devices.iter().filter(|d| matches!(Marked::parse(&d.path), Marked::Set(_)))
    {
        container.devices.push(device.clone());
        adjust.devices.push(device.clone());
    }
}

fn keys(asked: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(asked.linux.devices.iter().map(|d| d.path.as_str()))
}
