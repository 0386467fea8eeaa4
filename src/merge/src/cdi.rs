//! CDI devices, owned by qualified name. They can be added, not removed.
//!
//! Later plugins do not see them in the container: they are opaque names that are resolved when the
//! adjustment is applied.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    asked.CDI_devices.iter().try_for_each(|d| claims.keyed(Field::CdiDevices, &d.name))
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    merged.adjust.CDI_devices.extend_from_slice(&asked.CDI_devices);
}
