//! Network devices, owned by their name on the host.

use crate::marked::{Keys, overlay_map};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    Keys::of_map(&asked.linux.net_devices).claim(Field::LinuxNetDevices, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if !asked.linux.net_devices.is_empty() {
        let (container, adjust) = merged.linux();
        overlay_map(&asked.linux.net_devices, &mut container.net_devices, &mut adjust.net_devices);
    }
}
