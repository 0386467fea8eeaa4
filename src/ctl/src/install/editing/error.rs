//! Reasons why a configuration file cannot be read or edited.

use std::{io, path::PathBuf};

/// Reason why a text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    #[error("not UTF-8")]
    Encoding,
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    #[error("{name:?} occurs twice, or in another letter case than engines use")]
    Ambiguous { name: String },
    #[error("{path} is not a table or object")]
    NotATable { path: String },
    #[error("{path}: this layout cannot be edited, set it by hand")]
    Layout { path: String },
}

impl EditError {
    /// Returns the error for a mistake at the byte at offset `at` of a text.
    pub(super) fn syntax(text: &str, at: usize, message: &str) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = message.trim_end().replace('\n', ", ");
        Self::Syntax { line: before.matches('\n').count() + 1, column, message }
    }

    /// Returns the error for a path on which a value has no members.
    pub(super) fn not_a_table(at: &[String]) -> Self {
        Self::NotATable { path: at.join(".") }
    }
}

/// Failure to read or edit a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Edit { path: PathBuf, source: EditError },
}
