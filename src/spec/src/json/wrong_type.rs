//! [`WrongType`]: the error of a JSON value whose type is not that of the specification.

use serde_json::Value;
use std::fmt::Write as _;

/// A field whose type is not that of the specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is {found}, not {expected}",
    if path.is_empty() { "top-level value" } else { path.as_str() })]
pub struct WrongType {
    /// Path of the field, such as `linux.devices[2].major`.
    pub path: String,
    /// Type in the specification.
    pub expected: &'static str,
    /// Type of the value. Contents of strings are not shown: they may be secrets.
    pub found: String,
}

impl WrongType {
    pub(crate) fn new(expected: &'static str, found: &Value) -> Self {
        Self { path: String::new(), expected, found: kind(found) }
    }

    /// Prepends the key of the object that holds the field.
    pub(crate) fn within(mut self, key: &str) -> Self {
        let mut path = String::new();
        if !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            path.push_str(key);
        } else {
            let _ = write!(path, "[{key:?}]"); // writing to a string cannot fail
        }
        if !self.path.is_empty() && !self.path.starts_with('[') {
            path.push('.');
        }
        path.push_str(&self.path);
        self.path = path;
        self
    }

    /// Prepends the index in the array that holds the field.
    pub(crate) fn at(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

/// Type of a value, in words.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(n) => {
            // A number may have millions of digits; the first forty identify it in a message.
            format!("the number {}", n.to_string().chars().take(40).collect::<String>())
        }
        Value::String(_) => "a string".into(),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}
