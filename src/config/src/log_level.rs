//! `[log] level`: a level, or a list of levels for parts of `nrid` (tracing calls them targets).
//!
//! An unknown level must be an error here: tracing would take the word as the name of a target, and
//! log the events of that target only.

use serde::{
    Deserializer,
    de::{Error, Visitor},
};
use std::fmt;

/// The levels, from the fewest events to the most.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Another name of the level `warn`.
const WARNING: &str = "warning";

/// Part of the error message about an unknown level, by which [`is_unknown_level`] finds it.
const NOT_A_LEVEL: &str = " is not a level; known levels";

/// A text that is not a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}{NOT_A_LEVEL}: {levels}", levels = LEVELS.join(", "))]
pub struct UnknownLogLevel(String);

/// Parses a level in upper or lower case, or a list such as `info,nri_wire=debug`. Returns it in
/// the form of `[log] level`.
///
/// # Errors
/// A level is unknown.
pub fn parse_log_level(text: &str) -> Result<String, UnknownLogLevel> {
    let item = |item: &str| {
        let (part, level) = item.rsplit_once('=').unwrap_or(("", item));
        let level = level.trim();
        let level = if level.eq_ignore_ascii_case(WARNING) { "warn" } else { level };
        if !LEVELS.iter().any(|l| l.eq_ignore_ascii_case(level)) {
            return Err(UnknownLogLevel(level.to_owned()));
        }
        let part = part.trim();
        Ok(if part.is_empty() { level.to_owned() } else { format!("{part}={level}") })
    };
    let items: Result<Vec<_>, _> = text.split(',').map(item).collect();
    Ok(items?.join(","))
}

/// Reads a level in upper or lower case, or a list such as `info,nri_wire=debug`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    struct LevelVisitor;
    impl Visitor<'_> for LevelVisitor {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a level, such as \"info\"")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            parse_log_level(text).map_err(E::custom)
        }
    }
    d.deserialize_str(LevelVisitor)
}

/// Whether `message` is the error of [`deserialize`] about an unknown level. The text is compared,
/// since errors that pass through serde have no type.
pub(crate) fn is_unknown_level(message: &str) -> bool {
    message.contains(NOT_A_LEVEL)
}
