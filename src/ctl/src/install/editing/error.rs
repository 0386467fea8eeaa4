//! Reasons why a configuration file cannot be read or edited.

use std::{fmt, io, path::PathBuf};

/// Position of a byte in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPosition {
    line: usize,
    column: usize,
}

impl TextPosition {
    /// Returns the position of the byte at offset `at`.
    pub(super) fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Reason why a text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("not UTF-8")]
    Encoding,
    #[error("{position}: {message}")]
    Syntax { position: TextPosition, message: String },
    #[error("{position}: {name:?} occurs twice, or in another letter case than engines use")]
    Ambiguous { position: TextPosition, name: String },
    #[error("{position}: {path} is not a table or object")]
    NotATable { position: TextPosition, path: String },
    #[error("{path}: this layout cannot be edited without changing other values")]
    Layout { path: String },
}

/// Failure to read or edit a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Edit { path: PathBuf, source: EditError },
}
