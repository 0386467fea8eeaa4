//! Errors of TOML files: where the key is, and what is wrong in words of the file.

use crate::{Words, reworded, wording::unknown_key};
use std::{collections::BTreeSet, ops::Range};
use toml::de::{DeTable, DeValue};

/// What is wrong in a TOML file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlMistake {
    /// Where it is, in bytes from the beginning of the text.
    pub offset: usize,
    /// What is wrong, in one line. It names the key.
    pub message: String,
    /// The key that is not known, if that is wrong.
    pub unknown: Option<UnknownKey>,
}

/// A key that its table does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// The key.
    pub key: String,
    /// Its table; empty for the top of the file.
    pub table: Vec<String>,
    /// The keys that the table has, with all their spellings.
    pub known: Vec<String>,
}

impl TomlMistake {
    /// Describes an error of the parser of `text`, or of the types that the text is read into.
    pub fn new(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().trim_end().replace('\n', ", ");
        let mut offset = error.span().map_or(0, |span| span.start.min(text.len()));
        if message.starts_with("duplicate field ") {
            // The parser reports no place.
            offset = second_spelling(text).unwrap_or(offset);
        }
        let path = || key_at(text, offset).unwrap_or_default();
        if let Some((key, known)) = unknown_key(&message) {
            let mut table = path();
            table.pop();
            let known = known.into_iter().map(str::to_owned).collect();
            let unknown = Some(UnknownKey { key: key.to_owned(), table, known });
            return Self { offset, message: reworded(&message, Words::Toml), unknown };
        }
        let mut message = reworded(&message, Words::Toml);
        if message.starts_with("must be ") {
            message = format!("{} {message}", path().join(".").replace('-', "_")).trim().to_owned();
        }
        Self { offset, message, unknown: None }
    }
}

/// Returns line and column of an offset in bytes, both counted from 1, the column in characters.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

/// A key of a file, and where it is.
struct Place {
    /// The names of its tables and its own, as they are written.
    path: Vec<String>,
    /// Index of its table in a list of tables, if it is in one.
    index: Option<usize>,
    key: Range<usize>,
    /// The value; of a table that has its own header, the header.
    value: Range<usize>,
}

/// Returns the path of the key at this offset of the text, or of the innermost key whose value is
/// there; `None` if the text is no TOML, or has no key there.
fn key_at(text: &str, offset: usize) -> Option<Vec<String>> {
    let places = places(text);
    let innermost = || {
        let around = places.iter().filter(|place| place.value.contains(&offset));
        around.max_by_key(|place| place.path.len())
    };
    let key = places.iter().find(|place| place.key.contains(&offset)).or_else(innermost);
    key.map(|place| place.path.clone())
}

/// Returns where the value of a key is, which may be written with dashes. `index` is that of its
/// table, if it is in a list of tables.
pub fn toml_value(text: &str, path: &[&str], index: Option<usize>) -> Option<Range<usize>> {
    let is_it = |place: &Place| {
        place.index == index
            && place.path.iter().map(|key| key.replace('-', "_")).eq(path.iter().copied())
    };
    places(text).into_iter().find(is_it).map(|place| place.value)
}

/// Returns where a key is that is there in another spelling before, if any.
fn second_spelling(text: &str) -> Option<usize> {
    let mut places = places(text);
    places.sort_by_key(|place| place.key.start);
    let name = |place: &Place| {
        let path: Vec<_> = place.path.iter().map(|key| key.replace('-', "_")).collect();
        (path, place.index)
    };
    let mut seen = BTreeSet::new();
    places.iter().find(|place| !seen.insert(name(place))).map(|place| place.key.start)
}

fn places(text: &str) -> Vec<Place> {
    let mut found = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        collect(table.get_ref(), &[], None, &mut found);
    }
    found
}

fn collect(table: &DeTable<'_>, above: &[String], index: Option<usize>, found: &mut Vec<Place>) {
    for (key, value) in table {
        let path: Vec<_> = above.iter().cloned().chain([key.get_ref().to_string()]).collect();
        match value.get_ref() {
            DeValue::Table(table) => collect(table, &path, index, found),
            DeValue::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    if let DeValue::Table(table) = value.get_ref() {
                        collect(table, &path, Some(index), found);
                    }
                }
            }
            _ => {}
        }
        found.push(Place { path, index, key: key.span(), value: value.span() });
    }
}
