//! RDT class (Resource Director Technology): the definition of the class becomes `linux.intelRdt`,
//! and the empty name removes the object.
//!
//! A class stands for the resctrl control group (`closID`) of the same name. The administrator of
//! resctrl creates groups and their schemata. [`RdtClasses`](crate::RdtClasses) parses the names
//! from a configuration in goresctrl's format.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_at, set_at};
use crate::resources::class::resolved;
use nri_api::field_name;
use nri_api::proto::{ContainerAdjustment, Field};
use serde_json::Value;

const FIELD: Field = Field::RdtClass;

/// Replaces `linux.intelRdt` by the class.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(class) = adjust.linux.resources.rdt_class.as_ref().map(|c| c.value.as_str()) else {
        return Ok(());
    };
    let result = if class.is_empty() {
        remove_at(spec, &["linux"], "intelRdt")
    } else {
        let value = resolved(FIELD, class, (ctx.rdt)(class))?;
        set_at(spec, &["linux"], "intelRdt", value)
    };
    result.map_err(in_field(field_name(FIELD)))
}
