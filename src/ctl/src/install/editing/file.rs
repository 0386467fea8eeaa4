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

/// A file's text, and its path for errors.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    bom: bool,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Json(Json),
    Toml(Box<Toml>),
}

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
        let (bom, body) =
            parsed.map_err(|source| FileError::Edit { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), bom, body })
    }

    /// Returns a TOML file without any value.
    pub(crate) fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), bom: false, body: Body::Toml(Box::default()) }
    }

    /// Returns the file's bytes as they are now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bom = if self.bom { BOM } else { "" };
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

    /// Whether the text has comments that JSON does not allow.
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
        let made = match &mut self.body {
            Body::Json(json) => json.set(at, value),
            Body::Toml(toml) => toml.set(at, value),
        };
        made.map_err(|source| self.failed(source))
    }

    /// Removes the value at a path, and up to `made` of its parent tables, if they are empty then.
    pub(crate) fn remove(&mut self, at: &[String], made: usize) -> Result<(), FileError> {
        for end in (at.len().saturating_sub(made).max(1)..=at.len()).rev() {
            let (around, at) = (end < at.len(), &at[..end]);
            let is_empty = |value: Value| value.as_object().is_some_and(Map::is_empty);
            if around && !self.get(at)?.is_some_and(is_empty) {
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

/// Whether a value equals `wanted`; a table may have further members.
pub(crate) fn in_effect(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            current.get(name).is_some_and(|current| in_effect(current, wanted))
        }),
        _ => current == wanted,
    }
}

/// Makes a path of names.
pub(crate) fn path<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
