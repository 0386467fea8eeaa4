//! Kernel parameters: `linux.sysctl`.

use crate::context::ApplyContext;
use crate::error::ApplyError;
use crate::fields::annotations::apply_map;
use crate::json::read::{Object, Read, field_or_default, map, text};
use nri_api::proto::ContainerAdjustment;
use serde_json::Value;
use std::collections::HashMap;

pub(crate) fn read(linux: &Object) -> Read<HashMap<String, String>> {
    field_or_default(linux, "sysctl", map(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    apply_map(spec, "sysctl", &["linux"], "sysctl", &adjust.linux.sysctl)
}
