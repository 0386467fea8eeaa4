//! Network devices, owned by their name on the host.

use crate::error::MergeError;
use crate::marked::{Keys, overlay_map};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&requested.linux.net_devices).claim(Field::LinuxNetDevices, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if !requested.linux.net_devices.is_empty() {
        let (container, adjust) = merged.linux();
        overlay_map(
            &requested.linux.net_devices,
            &mut container.net_devices,
            &mut adjust.net_devices,
        );
    }
}
