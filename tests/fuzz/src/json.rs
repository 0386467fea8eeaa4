//! Functions on JSON values that several targets use.

use serde_json::Value;

/// Returns the number of nulls in a value.
pub fn nulls(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Array(list) => list.iter().map(nulls).sum(),
        Value::Object(fields) => fields.values().map(nulls).sum(),
        _ => 0,
    }
}

/// Removes nulls from a value.
pub fn without_nulls(mut value: Value) -> Value {
    fn drop_nulls(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, v| !v.is_null());
                fields.values_mut().for_each(drop_nulls);
            }
            Value::Array(items) => {
                items.retain(|v| !v.is_null());
                items.iter_mut().for_each(drop_nulls);
            }
            _ => {}
        }
    }
    drop_nulls(&mut value);
    value
}

/// Removes fields with empty objects from a value.
pub fn without_empty(mut value: Value) -> Value {
    fn drop_empty(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, v| !v.as_object().is_some_and(serde_json::Map::is_empty));
        }
    }
    drop_empty(&mut value);
    value
}

/// Parses a value as the programs parse an OCI config. Returns `None` if the bytes are not an OCI
/// config.
pub fn parse(bytes: &[u8]) -> Option<Value> {
    nri_spec::OciConfig::parse(bytes).ok().map(nri_spec::OciConfig::into_value)
}
