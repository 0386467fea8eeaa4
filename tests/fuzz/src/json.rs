//! What may be asked of any JSON value.

use serde_json::Value;

/// How many nulls there are.
pub fn nulls(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Array(list) => list.iter().map(nulls).sum(),
        Value::Object(fields) => fields.values().map(nulls).sum(),
        _ => 0,
    }
}

/// The same without nulls.
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

/// The same without objects that have no fields.
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

/// Reads a value as the programs do; none for what no OCI config may be.
pub fn parse(bytes: &[u8]) -> Option<Value> {
    nri_spec::OciConfig::parse(bytes).ok().map(nri_spec::OciConfig::into_value)
}
