//! Typed reads of JSON. An error has the path of the field, relative to the value that is read.
//!
//! `null` counts as missing, as it does for runtimes.

use crate::json::wrong_type::WrongType;
use nri_api::{Optional, opt};
use protobuf::MessageField;
use serde_json::{Map, Value};
use std::collections::HashMap;

pub(crate) type Object = Map<String, Value>;
pub(crate) type Read<T> = Result<T, WrongType>;

/// Reads the field `key` of an object with `read`; `None` if the field is missing.
pub(crate) fn field<'a, T>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Read<T>,
) -> Read<Option<T>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).map_err(|e| e.within(key)),
    }
}

/// Reads like [`field`], with the default of the protocol for a missing field.
pub(crate) fn field_or_default<'a, T: Default>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Read<T>,
) -> Read<T> {
    Ok(field(object, key, read)?.unwrap_or_default())
}

/// Reads like [`field`], and returns an `Optional…` message of the protocol.
pub(crate) fn optional<'a, T: Optional>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Read<T::Value>,
) -> Read<MessageField<T>> {
    Ok(opt(field(object, key, read)?))
}

/// Reads like [`field`], and returns a message field.
pub(crate) fn message<'a, T>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Read<T>,
) -> Read<MessageField<T>> {
    Ok(field(object, key, read)?.into())
}

/// Reads an object.
pub(crate) fn object(value: &Value) -> Read<&Object> {
    value.as_object().ok_or_else(|| WrongType::new("an object", value))
}

/// Reads an array, each element with `read`.
pub(crate) fn list<'a, T>(
    read: impl Fn(&'a Value) -> Read<T>,
) -> impl Fn(&'a Value) -> Read<Vec<T>> {
    move |value| {
        let items = value.as_array().ok_or_else(|| WrongType::new("an array", value))?;
        items.iter().enumerate().map(|(i, v)| read(v).map_err(|e| e.at(i))).collect()
    }
}

/// Reads an object whose keys are arbitrary, each value with `read`.
pub(crate) fn map<'a, T>(
    read: impl Fn(&'a Value) -> Read<T>,
) -> impl Fn(&'a Value) -> Read<HashMap<String, T>> {
    move |value| {
        let items = object(value)?.iter();
        items.map(|(k, v)| Ok((k.clone(), read(v).map_err(|e| e.within(k))?))).collect()
    }
}

pub(crate) fn text(value: &Value) -> Read<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| WrongType::new("a string", value))
}

pub(crate) fn boolean(value: &Value) -> Read<bool> {
    value.as_bool().ok_or_else(|| WrongType::new("a boolean", value))
}

/// Reads an integer in the range of the target type. Numbers with a fraction or an exponent are
/// refused, as runtimes refuse them.
pub(crate) fn integer<T: Integer>(value: &Value) -> Read<T> {
    let number = value.as_number().and_then(|n| n.as_str().parse::<i128>().ok());
    number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| WrongType::new(T::NAME, value))
}

/// Integer types of the protocol.
pub(crate) trait Integer: TryFrom<i128> {
    /// Name of the type in errors.
    const NAME: &'static str;
}

impl Integer for i32 {
    const NAME: &'static str = "a 32-bit integer";
}
impl Integer for u32 {
    const NAME: &'static str = "an unsigned 32-bit integer";
}
impl Integer for i64 {
    const NAME: &'static str = "a 64-bit integer";
}
impl Integer for u64 {
    const NAME: &'static str = "an unsigned 64-bit integer";
}
