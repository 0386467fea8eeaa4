//! Explicit resctrl values: closid, schemata and monitoring, each with a separate owner. The RDT
//! class is in [`crate::resources::rdt_class`].
//!
//! `remove` clears all three values and takes over their claims. As in upstream NRI, `remove` is
//! dropped from the merged adjustment as soon as a plugin sets one of the three values, even in the
//! same reply.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field, LinuxRdt};
use protobuf::MessageField;

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    let rdt = &requested.linux.rdt;
    if rdt.remove {
        [Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring]
            .into_iter()
            .for_each(|field| claims.clear(field));
    }
    claims.claim_fields([
        (rdt.clos_id.is_some(), Field::RdtClosID),
        (rdt.schemata.is_some(), Field::RdtSchemata),
        (rdt.enable_monitoring.is_some(), Field::RdtEnableMonitoring),
    ])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let rdt = &requested.linux.rdt;
    if !rdt.remove && !sets_value(rdt) {
        return;
    }
    let pristine = merged.pristine.linux.rdt.clone();
    let (container, adjust) = merged.linux();
    let result = adjust.rdt.mut_or_insert_default();
    if rdt.remove {
        *result = LinuxRdt { remove: true, ..Default::default() };
    }
    if sets_value(rdt) {
        result.remove = false;
        overlay(rdt, result);
    }
    container.rdt = if result.remove {
        MessageField::none()
    } else {
        let mut values = pristine.unwrap_or_default();
        overlay(result, &mut values);
        MessageField::some(values)
    };
}

fn sets_value(rdt: &LinuxRdt) -> bool {
    rdt.clos_id.is_some() || rdt.schemata.is_some() || rdt.enable_monitoring.is_some()
}

fn overlay(from: &LinuxRdt, to: &mut LinuxRdt) {
    if from.clos_id.is_some() {
        to.clos_id.clone_from(&from.clos_id);
    }
    if from.schemata.is_some() {
        to.schemata.clone_from(&from.schemata);
    }
    if from.enable_monitoring.is_some() {
        to.enable_monitoring.clone_from(&from.enable_monitoring);
    }
}
