//! NUMA memory policy of the process: `linux.memoryPolicy`. Plugins can set the policy but not see
//! it: the container that they see has no field for it.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{put_text, set_at};
use crate::json::read::Object;
use nri_api::proto::{ContainerAdjustment, Field};
use serde_json::Value;

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(policy) = adjust.linux.memory_policy.as_ref() else { return Ok(()) };
    let mode = policy.mode.enum_value();
    let mode = mode.map_err(|value| ApplyError::UnknownValue {
        field: Field::MemoryPolicy,
        part: "mode",
        value,
    })?;
    let mut flags = Vec::new();
    for flag in &policy.flags {
        let flag = flag.enum_value().map_err(|value| ApplyError::UnknownValue {
            field: Field::MemoryPolicy,
            part: "flag",
            value,
        })?;
        flags.push(Value::from(format!("{flag:?}")));
    }
    let mut fields = Object::new();
    fields.insert("mode".into(), format!("{mode:?}").into());
    put_text(&mut fields, "nodes", &policy.nodes);
    if !flags.is_empty() {
        fields.insert("flags".into(), flags.into());
    }
    set_at(spec, &["linux"], "memoryPolicy", fields).map_err(in_field("memory_policy"))
}
