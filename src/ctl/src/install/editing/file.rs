//! A configuration file in JSON or TOML, changed value by value.

use super::{
    error::{EditError, FileError},
    json::Json,
    toml::Toml,
};
use crate::install::install_root::InstallRoot;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// A JSON object.
    Json,
    /// TOML tables.
    Toml,
}

/// The text of a file, and its path for error messages.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// Whether the file begins with a byte order mark, which is kept.
    has_bom: bool,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Json(Json),
    Toml(Box<Toml>),
}

/// Byte order mark in UTF-8.
const BOM: &str = "\u{feff}";

impl ConfigFile {
    /// Reads a file; `None` if it does not exist.
    pub(crate) fn read(
        root: &InstallRoot,
        path: &Path,
        format: Format,
    ) -> Result<Option<Self>, FileError> {
        root.read(path)?.map(|bytes| Self::parse(path, format, &bytes)).transpose()
    }

    /// Parses a file's bytes.
    pub(crate) fn parse(path: &Path, format: Format, bytes: &[u8]) -> Result<Self, FileError> {
        let body = |text: &str| match format {
            Format::Json => Json::parse(text).map(Body::Json),
            Format::Toml => Toml::parse(text).map(|toml| Body::Toml(Box::new(toml))),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| EditError::Encoding);
        let parsed = text.and_then(|text| {
            let plain = text.strip_prefix(BOM);
            Ok((plain.is_some(), body(plain.unwrap_or(text))?))
        });
        let (has_bom, body) =
            parsed.map_err(|source| FileError::Edit { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), has_bom, body })
    }

    /// Returns a TOML file without any value.
    pub(crate) fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), has_bom: false, body: Body::Toml(Box::default()) }
    }

    /// Returns the bytes of the file with all edits.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bom = if self.has_bom { BOM } else { "" };
        let text = match &self.body {
            Body::Json(json) => json.text().to_owned(),
            Body::Toml(toml) => toml.text(),
        };
        format!("{bom}{text}").into_bytes()
    }

    /// Returns all values.
    pub(crate) fn value(&self) -> Value {
        match &self.body {
            Body::Json(json) => json.value(),
            Body::Toml(toml) => toml.value(),
        }
    }

    /// Whether the file is JSON with comments, which the JSON standard does not allow.
    pub(crate) fn has_json_comments(&self) -> bool {
        matches!(&self.body, Body::Json(json) if json.has_comments())
    }

    /// Returns the value at a path.
    pub(crate) fn get(&self, at: &[String]) -> Result<Option<Value>, FileError> {
        match &self.body {
            Body::Json(json) => json.get(at).map_err(|source| self.failed(source)),
            Body::Toml(toml) => Ok(toml.get(at)),
        }
    }

    /// Sets the value at a path. Returns the number of parent tables that were created.
    pub(crate) fn set(&mut self, at: &[String], value: &Value) -> Result<usize, FileError> {
        let created = match &mut self.body {
            Body::Json(json) => json.set(at, value),
            Body::Toml(toml) => toml.set(at, value),
        };
        created.map_err(|source| self.failed(source))
    }

    /// Removes the value at a path, and then up to `parents` of its parent tables, while they are
    /// empty.
    pub(crate) fn remove(&mut self, at: &[String], parents: usize) -> Result<(), FileError> {
        for end in (at.len().saturating_sub(parents).max(1)..=at.len()).rev() {
            let (is_parent, at) = (end < at.len(), &at[..end]);
            let is_empty = |value: Value| value.as_object().is_some_and(Map::is_empty);
            if is_parent && !self.get(at)?.is_some_and(is_empty) {
                break;
            }
            match &mut self.body {
                Body::Json(json) => json.remove(at).map_err(|source| self.failed(source))?,
                Body::Toml(toml) => toml.remove(at),
            }
        }
        Ok(())
    }

    /// Returns the error for a layout in which setting `at` would change other values.
    pub(crate) fn layout_error(&self, at: &[String]) -> FileError {
        self.failed(EditError::Layout { path: at.join(".") })
    }

    fn failed(&self, source: EditError) -> FileError {
        FileError::Edit { path: self.path.clone(), source }
    }
}

/// Whether a value equals `wanted`. Tables may have members that `wanted` does not have.
pub(crate) fn in_effect(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            current.get(name).is_some_and(|current| in_effect(current, wanted))
        }),
        _ => current == wanted,
    }
}

/// Returns the path of a value as a list of names.
pub(crate) fn path<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
