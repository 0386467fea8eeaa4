//! Resource limits of the process: `process.rlimits`, identified by type.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::array;
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, integer, list, object, text};
use nri_api::proto::{ContainerAdjustment, Field, POSIXRlimit};
use serde_json::{Value, json};

pub(crate) fn read(process: &Object) -> Read<Vec<POSIXRlimit>> {
    field_or_default(process, "rlimits", list(read_one))
}

fn read_one(value: &Value) -> Read<POSIXRlimit> {
    let fields = object(value)?;
    let mut rlimit = POSIXRlimit::new();
    rlimit.type_ = field_or_default(fields, "type", text)?;
    rlimit.hard = field_or_default(fields, "hard", integer)?;
    rlimit.soft = field_or_default(fields, "soft", integer)?;
    Ok(rlimit)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    if let Some(wrong) =
        adjust.rlimits.iter().find(|l| l.type_.is_empty() || l.type_.starts_with('-'))
    {
        // The protocol cannot remove a limit, so a removal marker is an error of the plugin.
        let value = wrong.type_.clone();
        return Err(ApplyError::Invalid {
            field: Field::Rlimits,
            value,
            why: "is not a resource limit type",
        });
    }
    if adjust.rlimits.is_empty() {
        return Ok(());
    }
    let entry = |l: &POSIXRlimit| json!({ "type": l.type_, "hard": l.hard, "soft": l.soft });
    let entries = adjust.rlimits.iter().map(|l| (Some(l.type_.as_str()), entry(l))).collect();
    let list = array(spec, &["process", "rlimits"]).map_err(in_field("rlimits"))?;
    named::replace_or_push(list, named::name_field("type"), entries);
    Ok(())
}
