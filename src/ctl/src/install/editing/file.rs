//! A configuration file in JSON or TOML, changed value by value.

use super::{
    error::{EditError, FileError},
    json, toml,
};
use crate::install::install_root::InstallRoot;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A JSON object.
    Json,
    /// TOML tables.
    Toml,
}

/// A file, as it is and as it shall be.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    format: Format,
    /// The bytes that the file has; `None`: it does not exist.
    pub(crate) before: Option<Vec<u8>>,
    has_bom: bool,
    /// Whether the file shall not exist.
    pub(crate) is_removed: bool,
    /// The text that the file shall have, without byte order mark.
    pub(crate) text: String,
    /// All values in the text.
    pub(crate) value: Value,
}

/// Byte order mark in UTF-8, which is kept.
const BOM: &str = "\u{feff}";

impl ConfigFile {
    /// Reads a file; one that does not exist has no values. It is JSON if its name or its first
    /// character says so.
    pub(crate) fn read(root: &InstallRoot, path: &Path) -> Result<Self, FileError> {
        let before = root.read(path)?;
        let is_json = |text: &[u8]| text.trim_ascii_start().starts_with(b"{");
        let is_json = path.extension().is_some_and(|end| end == "json")
            || before.as_deref().is_some_and(is_json);
        let format = if is_json { Format::Json } else { Format::Toml };
        let value = Value::Object(Default::default());
        let (path, text) = (path.to_owned(), String::new());
        let mut file =
            Self { path, format, before, has_bom: false, is_removed: false, text, value };
        let text = std::str::from_utf8(file.before.as_deref().unwrap_or_default());
        let text = text.map_err(|_| file.failed(EditError::Encoding))?;
        file.has_bom = text.starts_with(BOM);
        let text = text.trim_start_matches(BOM).to_owned();
        file.replace_text(text)?;
        Ok(file)
    }

    /// Replaces the whole text.
    pub(crate) fn replace_text(&mut self, text: String) -> Result<(), FileError> {
        let value = match self.format {
            Format::Json => json::parse(&text),
            Format::Toml => toml::parse(&text),
        };
        self.value = value.map_err(|source| self.failed(source))?;
        self.text = text;
        Ok(())
    }

    /// Returns the bytes that the file shall have; `None`: it shall not exist.
    pub(crate) fn after(&self) -> Option<Vec<u8>> {
        let bom = if self.has_bom { BOM } else { "" };
        let exists = !self.is_removed && (self.before.is_some() || !self.text.is_empty());
        exists.then(|| format!("{bom}{}", self.text).into_bytes())
    }

    /// Returns the value at a path.
    pub(crate) fn get(&self, at: &[String]) -> Option<&Value> {
        at.iter().try_fold(&self.value, |value, name| value.get(name))
    }

    /// Sets the value at a path. Returns how many of its parent tables, and the file, were created.
    pub(crate) fn set(&mut self, at: &[String], value: &Value) -> Result<usize, FileError> {
        let parents = (1..at.len()).filter(|end| self.get(&at[..*end]).is_none()).count();
        let text = match self.format {
            Format::Json => json::set(&self.text, at, value),
            Format::Toml => toml::set(&self.text, at, value),
        };
        self.replace_text(text.map_err(|source| self.failed(source))?)?;
        if !self.has(at, value) {
            return Err(self.failed(EditError::Layout { path: at.join(".") }));
        }
        Ok(parents + usize::from(self.before.is_none()))
    }

    /// Removes the value at a path, and up to `parents` of its parent tables, while they are empty.
    pub(crate) fn remove(&mut self, at: &[String], parents: usize) -> Result<(), FileError> {
        for end in (1..=at.len()).rev().take(parents + 1) {
            let (is_parent, at) = (end < at.len(), &at[..end]);
            match self.get(at) {
                None => continue,
                Some(Value::Object(table)) if is_parent && table.is_empty() => {}
                Some(_) if is_parent => break,
                Some(_) => {}
            }
            let text = match self.format {
                Format::Json => json::remove(&self.text, at),
                Format::Toml => toml::remove(&self.text, at),
            };
            self.replace_text(text.map_err(|source| self.failed(source))?)?;
        }
        Ok(())
    }

    /// Whether the value at a path is `wanted`. Tables may have more members than `wanted`.
    pub(crate) fn has(&self, at: &[String], wanted: &Value) -> bool {
        self.get(at).is_some_and(|current| in_effect(current, wanted))
    }

    fn failed(&self, source: EditError) -> FileError {
        FileError::Edit { path: self.path.clone(), source }
    }
}

fn in_effect(current: &Value, wanted: &Value) -> bool {
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
