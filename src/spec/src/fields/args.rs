//! Command line: `process.args`.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, field_or_default, list, text};
use nri_api::proto::ContainerAdjustment;
use serde_json::Value;

pub(crate) fn read(process: &Object) -> Read<Vec<String>> {
    field_or_default(process, "args", list(text))
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    // A leading "" marks that the arguments override those of another plugin, and is not an
    // argument itself. No program has an empty name, so any number of leading "" counts as one
    // marker.
    let args = &adjust.args[adjust.args.iter().take_while(|a| a.is_empty()).count()..];
    if args.is_empty() {
        return Ok(());
    }
    set_at(spec, &["process"], "args", args).map_err(in_field("args"))
}
