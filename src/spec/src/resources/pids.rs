//! Pids controller: `linux.resources.pids`.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, field_or_default, integer, message, object};
use nri_api::proto::{ContainerAdjustment, LinuxPids};
use protobuf::MessageField;
use serde_json::Value;

/// Reads an object without a limit as the limit 0, which means unlimited in the protocol.
pub(crate) fn read(resources: &Object) -> Read<MessageField<LinuxPids>> {
    message(resources, "pids", |value| {
        let mut pids = LinuxPids::new();
        pids.limit = field_or_default(object(value)?, "limit", integer)?;
        Ok(pids)
    })
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    match adjust.linux.resources.pids.as_ref() {
        None => Ok(()),
        Some(pids) => set_at(spec, &["linux", "resources", "pids"], "limit", to_oci(pids))
            .map_err(in_field("pids.limit")),
    }
}

/// Converts any negative limit to -1, which means unlimited to runtimes. Upstream NRI ignores
/// negative limits.
pub(crate) fn to_oci(pids: &LinuxPids) -> i64 {
    pids.limit.max(-1)
}
