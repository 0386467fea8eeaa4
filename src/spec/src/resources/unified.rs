//! Values of cgroup v2 files: `linux.resources.unified`, identified by file name. The protocol has
//! no removal of a file: a leading `-` belongs to the name.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, field_or_default, map, text};
use nri_api::proto::ContainerAdjustment;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub(crate) fn read(resources: &Object) -> Read<HashMap<String, String>> {
    field_or_default(resources, "unified", map(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    for (name, value) in adjust.linux.resources.unified.iter().collect::<BTreeMap<_, _>>() {
        set_at(spec, &["linux", "resources", "unified"], name, value.as_str())
            .map_err(in_field("unified"))?;
    }
    Ok(())
}
