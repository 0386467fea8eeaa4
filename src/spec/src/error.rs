//! What can be wrong with a document ([`OciConfigError`], [`WrongType`]) and with what was asked of
//! it ([`ApplyError`]).

use crate::cdi::CdiError;
use crate::context::Propagation;
use serde_json::Value;
use std::fmt::Write as _;

/// Bytes that are no OCI document.
#[derive(Debug, thiserror::Error)]
pub enum OciConfigError {
    /// More bytes than [`MAX_OCI_CONFIG`](crate::MAX_OCI_CONFIG).
    #[error("document has {size} bytes, more than {limit}")]
    TooLarge {
        /// Bytes it has.
        size: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// Not JSON, or nested too deeply; the source names line and column.
    #[error("document is not valid JSON")]
    Syntax(#[from] serde_json::Error),
    /// Nested more deeply than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("document is nested more than {limit} levels deep")]
    TooDeep {
        /// Levels it may have.
        limit: usize,
    },
    /// JSON, but not an object.
    #[error("document is {found}, not an object")]
    NotAnObject {
        /// What it is.
        found: String,
    },
    /// A key that the JSON library reserves for itself; a document with it would not come out as it
    /// went in.
    #[error("document uses the reserved key {key:?}")]
    ReservedKey {
        /// The key.
        key: &'static str,
    },
}

impl OciConfigError {
    /// Line and column of a syntax error, both from 1.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Syntax(e) => Some((e.line(), e.column())),
            _ => None,
        }
    }
}

/// A field of a document that has another type than the specification gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is {found}, not {expected}", if path.is_empty() { "document" } else { path.as_str() })]
pub struct WrongType {
    /// Path of the field, as in `linux.devices[2].major`.
    pub path: String,
    /// What it should be.
    pub expected: &'static str,
    /// What it is. Contents of strings are not shown: they may be secrets.
    pub found: String,
}

impl WrongType {
    pub(crate) fn new(expected: &'static str, found: &Value) -> Self {
        Self { path: String::new(), expected, found: kind(found) }
    }

    /// The same, seen from the object that holds it under `key`.
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

    /// The same, seen from the array that holds it at `index`.
    pub(crate) fn at(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

/// What a value is, in words.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(n) => {
            format!("the number {}", n.to_string().chars().take(40).collect::<String>())
        }
        Value::String(_) => "a string".into(),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// An adjustment that cannot be applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The document has another type where the adjustment has to go.
    #[error("cannot adjust {field}: the document does not follow the specification")]
    OciConfig {
        /// Group of fields that was being adjusted.
        field: &'static str,
        /// Which field of the document.
        #[source]
        source: WrongType,
    },
    /// A block I/O or RDT class that nothing defines.
    #[error("unknown {field} {name:?}")]
    UnknownClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
    },
    /// A class whose definition is no JSON object.
    #[error("definition of {field} {name:?} is {found}, not an object")]
    BrokenClass {
        /// `block I/O class` or `RDT class`.
        field: &'static str,
        /// Its name.
        name: String,
        /// What it is.
        found: String,
    },
    /// A value that no runtime could take.
    #[error("{field} {value:?} {why}")]
    Invalid {
        /// Field of the adjustment.
        field: &'static str,
        /// What the plugin gave.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An enumeration value that this version does not know.
    #[error("{field} has the unknown value {value}")]
    UnknownValue {
        /// Field of the adjustment.
        field: &'static str,
        /// Number on the wire.
        value: i32,
    },
    /// A mount asks for a propagation that its source does not have.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is {found}, {wanted} needs {needed}"
    )]
    Propagation {
        /// Where it goes.
        destination: String,
        /// Where it comes from.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
        /// What would do.
        needed: &'static str,
        /// What it has.
        found: Propagation,
    },
    /// The propagation of the source of a mount could not be found out.
    #[error(
        "mount {destination:?}: propagation of {mount_source:?} is not known, but {wanted} depends on it"
    )]
    UnknownPropagation {
        /// Where it goes.
        destination: String,
        /// Where it comes from.
        mount_source: String,
        /// The mount option.
        wanted: &'static str,
    },
    /// CDI devices that cannot be injected.
    #[error("cannot inject CDI devices")]
    Cdi(#[from] CdiError),
}
