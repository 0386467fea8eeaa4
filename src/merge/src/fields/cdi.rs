//! CDI devices, owned by qualified name. A plugin can add a CDI device, but not remove one.
//!
//! Later plugins do not see added CDI devices in the container: the names are resolved only when
//! the merged adjustment is applied.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    requested.CDI_devices.iter().try_for_each(|d| claims.claim_key(Field::CdiDevices, &d.name))
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    merged.adjust.CDI_devices.extend_from_slice(&requested.CDI_devices);
}
