//! Edits of JSON in place. Values that an edit does not name are unchanged.

use crate::json::number::same_value;
use crate::json::read::Object;
use crate::json::wrong_type::WrongType;
use nri_api::Optional;
use protobuf::MessageField;
use serde_json::Value;
use std::collections::HashSet;

/// The object at a path, created if it is missing or null.
pub(crate) fn object<'a>(root: &'a mut Value, path: &[&str]) -> Result<&'a mut Object, WrongType> {
    match at(root, path, || Value::Object(Object::new()))? {
        Value::Object(object) => Ok(object),
        other => Err(inside(WrongType::new("an object", other), path)),
    }
}

/// The array at a path, created if it is missing or null.
pub(crate) fn array<'a>(
    root: &'a mut Value,
    path: &[&str],
) -> Result<&'a mut Vec<Value>, WrongType> {
    match at(root, path, || Value::Array(Vec::new()))? {
        Value::Array(array) => Ok(array),
        other => Err(inside(WrongType::new("an array", other), path)),
    }
}

/// The object at a path, if it exists and is not null.
pub(crate) fn existing_object<'a>(
    root: &'a mut Value,
    path: &[&str],
) -> Result<Option<&'a mut Object>, WrongType> {
    if existing(root, path)?.is_none() { Ok(None) } else { object(root, path).map(Some) }
}

/// The array at a path, if it exists and is not null.
pub(crate) fn existing_array<'a>(
    root: &'a mut Value,
    path: &[&str],
) -> Result<Option<&'a mut Vec<Value>>, WrongType> {
    if existing(root, path)?.is_none() { Ok(None) } else { array(root, path).map(Some) }
}

/// Sets a field. A field whose value is already equal is not touched, so that a number keeps its
/// spelling (`1e3`, `1000`).
pub(crate) fn set(object: &mut Object, key: &str, value: impl Into<Value>) {
    let value = value.into();
    if object.get(key).is_none_or(|old| !same_value(old, &value)) {
        object.insert(key.to_owned(), value);
    }
}

/// Sets a field of the object at a path, which is created if it is missing or null.
pub(crate) fn set_at(
    root: &mut Value,
    path: &[&str],
    key: &str,
    value: impl Into<Value>,
) -> Result<(), WrongType> {
    set(object(root, path)?, key, value);
    Ok(())
}

/// Removes a field of the object at a path, if both exist.
pub(crate) fn remove_at(root: &mut Value, path: &[&str], key: &str) -> Result<(), WrongType> {
    if let Some(object) = existing_object(root, path)? {
        object.shift_remove(key); // keeps the order of the other keys
    }
    Ok(())
}

/// Removes fields of the object at a path in one pass, because each separate removal would move
/// all later fields.
pub(crate) fn remove_all_at(
    root: &mut Value,
    path: &[&str],
    keys: &HashSet<&str>,
) -> Result<(), WrongType> {
    if !keys.is_empty()
        && let Some(object) = existing_object(root, path)?
    {
        object.retain(|key, _| !keys.contains(key.as_str()));
    }
    Ok(())
}

/// The value at a path. `make` creates a missing or null value; missing or null objects above it
/// are created empty.
fn at<'a>(
    root: &'a mut Value,
    path: &[&str],
    make: impl Fn() -> Value,
) -> Result<&'a mut Value, WrongType> {
    let mut current = root;
    for (i, key) in path.iter().enumerate() {
        let object = match current {
            Value::Object(object) => object,
            other => return Err(inside(WrongType::new("an object", other), &path[..i])),
        };
        current = object.entry(*key).or_insert(Value::Null);
        if current.is_null() {
            *current = if i + 1 == path.len() { make() } else { Value::Object(Object::new()) };
        }
    }
    Ok(current)
}

/// The value at a path; `None` if it or an object above it is missing or null.
fn existing<'a>(root: &'a Value, path: &[&str]) -> Result<Option<&'a Value>, WrongType> {
    let mut current = root;
    for (i, key) in path.iter().enumerate() {
        let object = current
            .as_object()
            .ok_or_else(|| inside(WrongType::new("an object", current), &path[..i]))?;
        match object.get(*key) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => current = value,
        }
    }
    Ok(Some(current))
}

/// Prepends `path` to the path of an error.
fn inside(error: WrongType, path: &[&str]) -> WrongType {
    path.iter().rev().fold(error, |e, key| e.within(key))
}

/// Adds the value of an optional message, if it is set.
pub(crate) fn put<T: Optional<Value: Into<Value>>>(
    object: &mut Object,
    key: &str,
    value: &MessageField<T>,
) {
    if let Some(value) = value.as_ref() {
        object.insert(key.to_owned(), value.value().into());
    }
}

/// Adds a string, unless it is empty.
pub(crate) fn put_text(object: &mut Object, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), text.into());
    }
}

/// Adds a list, unless it is empty.
pub(crate) fn put_list(object: &mut Object, key: &str, list: &[String]) {
    if !list.is_empty() {
        object.insert(key.to_owned(), list.into());
    }
}
