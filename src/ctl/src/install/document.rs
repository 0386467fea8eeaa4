//! A configuration file of either kind, changed value by value.

use super::{json::Json, toml::Toml};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// One object.
    Json,
    /// Tables.
    Toml,
}

/// Counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    /// Of a byte of a text.
    pub(crate) fn of(text: &str, at: usize) -> Self {
        let before = &text[..at];
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

/// Why a file is not edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("not UTF-8")]
    Encoding,
    #[error("line {}, column {}: {message}", place.line, place.column)]
    Syntax { place: Place, message: String },
    #[error("line {}, column {}: {name:?} is there twice, or written otherwise than usual", place.line, place.column)]
    Ambiguous { place: Place, name: String },
    #[error("line {}, column {}: {path} is no table", place.line, place.column)]
    NotATable { place: Place, path: String },
    #[error("{path}: this layout cannot be edited without changing something else")]
    Layout { path: String },
}

/// The text, and where it may be changed.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    bom: bool,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Json(Json),
    Toml(Box<Toml>),
}

const BOM: &str = "\u{feff}";

impl Document {
    /// Takes a file's bytes.
    pub(crate) fn parse(format: Format, bytes: &[u8]) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::Encoding)?;
        let plain = text.strip_prefix(BOM);
        let (bom, text) = (plain.is_some(), plain.unwrap_or(text));
        let body = match format {
            Format::Json => Body::Json(Json::parse(text)?),
            Format::Toml => Body::Toml(Box::new(Toml::parse(text)?)),
        };
        Ok(Self { bom, body })
    }

    /// A TOML file without anything.
    pub(crate) fn empty() -> Self {
        Self { bom: false, body: Body::Toml(Box::default()) }
    }

    /// The file's bytes as they are now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bom = if self.bom { BOM } else { "" };
        let text = match &self.body {
            Body::Json(json) => json.text().to_owned(),
            Body::Toml(toml) => toml.text(),
        };
        format!("{bom}{text}").into_bytes()
    }

    /// All of it as values.
    pub(crate) fn value(&self) -> Value {
        match &self.body {
            Body::Json(json) => json.value(),
            Body::Toml(toml) => toml.value(),
        }
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &[String]) -> Result<Option<Value>, DocumentError> {
        match &self.body {
            Body::Json(json) => json.get(path),
            Body::Toml(toml) => Ok(toml.get(path)),
        }
    }

    /// Puts a value at a path; gives how many tables on the way to it were made.
    pub(crate) fn set(&mut self, path: &[String], value: &Value) -> Result<usize, DocumentError> {
        match &mut self.body {
            Body::Json(json) => json.set(path, value),
            Body::Toml(toml) => toml.set(path, value),
        }
    }

    /// Takes away what is at a path, and as many of the tables around it as `made` says, if they
    /// are empty then.
    pub(crate) fn remove(&mut self, path: &[String], made: usize) -> Result<(), DocumentError> {
        for end in (path.len().saturating_sub(made).max(1)..=path.len()).rev() {
            let around = end < path.len();
            let path = &path[..end];
            let empty = |value: Value| value.as_object().is_some_and(serde_json::Map::is_empty);
            if around && !self.get(path)?.is_some_and(empty) {
                break;
            }
            match &mut self.body {
                Body::Json(json) => json.remove(path)?,
                Body::Toml(toml) => toml.remove(path),
            }
        }
        Ok(())
    }
}

/// Whether what is there does what is wanted: tables may have more.
pub(crate) fn in_effect(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| there.get(name).is_some_and(|there| in_effect(there, wanted))),
        _ => there == wanted,
    }
}

/// Names of a path.
pub(crate) fn path<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
