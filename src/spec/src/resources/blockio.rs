//! Block I/O class: the definition of the class becomes `linux.resources.blockIO`, and the empty
//! name removes the object.
//!
//! [`ApplyContext`] defines the classes; [`BlockIoClasses`](crate::BlockIoClasses) parses a
//! configuration in goresctrl's format.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_at, set_at};
use crate::resources::class::resolved;
use nri_api::field_name;
use nri_api::proto::{ContainerAdjustment, Field};
use serde_json::Value;

const FIELD: Field = Field::BlockioClass;

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    match adjust.linux.resources.blockio_class.as_ref() {
        None => Ok(()),
        Some(class) => set_class(spec, &["linux", "resources"], &class.value, ctx),
    }
}

/// Sets or, for the empty name, removes `blockIO` in the resources object at `path`.
pub(crate) fn set_class(
    root: &mut Value,
    path: &[&str],
    class: &str,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    if class.is_empty() {
        return remove_at(root, path, "blockIO").map_err(in_field(field_name(FIELD)));
    }
    let value = resolved(FIELD, class, (ctx.blockio)(class))?;
    set_at(root, path, "blockIO", value).map_err(in_field(field_name(FIELD)))
}
