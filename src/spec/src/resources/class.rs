//! Block I/O and RDT classes: names whose definitions come from the host's configuration.

use crate::error::ApplyError;
use crate::json::wrong_type::kind;
use crate::resources::diff::without_nulls;
use nri_api::proto::Field;
use serde_json::Value;

/// Returns the definition of a class without nulls, or an error if it is missing or not an object.
pub(crate) fn resolved(
    field: Field,
    name: &str,
    definition: Option<Value>,
) -> Result<Value, ApplyError> {
    match definition {
        None => Err(ApplyError::UnknownClass { field, name: name.into() }),
        Some(Value::Object(fields)) => Ok(without_nulls(&Value::Object(fields))),
        Some(other) => {
            Err(ApplyError::BrokenClass { field, name: name.into(), found: kind(&other) })
        }
    }
}
