//! Paths in the configuration. A relative path would name a different file for each caller: a
//! wrapper has the working directory of its engine, `nrid` that of the process that started it.

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::{fmt, path::PathBuf};

/// A kind of path: its name in errors, and the check whether a text is such a path.
type PathKind = (&'static str, fn(&str) -> bool);

const ABSOLUTE: PathKind = ("an absolute path", |text| text.starts_with('/'));
const ABSOLUTE_OR_EMPTY: PathKind =
    ("an absolute path or \"\"", |text| text.is_empty() || text.starts_with('/'));
const PROGRAM: PathKind = ("an absolute path or a name without slashes", |text| {
    text.starts_with('/') || !(text.is_empty() || text.contains('/'))
});

/// Reads a path of one kind. It is a visitor, so that an error has the line and column of the path.
struct PathVisitor(PathKind);

impl Visitor<'_> for PathVisitor {
    type Value = PathBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PathBuf, E> {
        let (name, is_allowed) = self.0;
        if is_allowed(text) {
            Ok(text.into())
        } else {
            Err(E::custom(format!("{text:?} is not {name}")))
        }
    }
}

/// Whether `message` is an error of [`PathVisitor`] about a relative path, and not about an empty
/// text. The text is compared, since errors that pass through serde have no type.
pub(crate) fn is_relative(message: &str) -> bool {
    let kinds = [ABSOLUTE, ABSOLUTE_OR_EMPTY, PROGRAM];
    let is_kind = |(name, _): PathKind| message.ends_with(&format!(" is not {name}"));
    kinds.into_iter().any(is_kind) && !message.starts_with("\"\"")
}

/// Reads an absolute path.
pub(crate) fn absolute<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
    d.deserialize_str(PathVisitor(ABSOLUTE))
}

/// Reads an absolute path of an optional key.
pub(crate) fn absolute_option<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<PathBuf>, D::Error> {
    absolute(d).map(Some)
}

/// Reads an absolute path of an optional key, or an empty text.
pub(crate) fn absolute_or_empty<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<PathBuf>, D::Error> {
    d.deserialize_str(PathVisitor(ABSOLUTE_OR_EMPTY)).map(Some)
}

/// Reads the path of a program, or a name that is looked up in PATH and the standard directories.
pub(crate) fn program<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
    d.deserialize_str(PathVisitor(PROGRAM))
}

/// Reads the path or name of a program of an optional key.
pub(crate) fn program_option<'de, D: Deserializer<'de>>(d: D) -> Result<Option<PathBuf>, D::Error> {
    program(d).map(Some)
}

/// Reads a list of absolute paths.
pub(crate) fn absolute_list<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    struct Item(#[serde(deserialize_with = "absolute")] PathBuf);
    Ok(Vec::<Item>::deserialize(d)?.into_iter().map(|item| item.0).collect())
}

/// Reads a list of absolute paths of an optional key.
pub(crate) fn absolute_list_option<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Vec<PathBuf>>, D::Error> {
    absolute_list(d).map(Some)
}

/// Reads a list of paths or names of programs.
pub(crate) fn program_list<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    struct Item(#[serde(deserialize_with = "program")] PathBuf);
    Ok(Vec::<Item>::deserialize(d)?.into_iter().map(|item| item.0).collect())
}
