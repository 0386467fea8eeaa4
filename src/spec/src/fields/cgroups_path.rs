//! Path of the cgroup: `linux.cgroupsPath`.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, field_or_default, text};
use nri_api::proto::ContainerAdjustment;
use serde_json::Value;

pub(crate) fn read(linux: &Object) -> Read<String> {
    field_or_default(linux, "cgroupsPath", text)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let path = adjust.linux.cgroups_path.as_str();
    if path.is_empty() {
        return Ok(());
    }
    set_at(spec, &["linux"], "cgroupsPath", path).map_err(in_field("cgroups_path"))
}
