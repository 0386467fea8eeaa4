//! Refusals: ours by type, upstream's by its text.

use super::Difference;
use nri_merge::MergeError;
use nri_merge::validator::Rejection;

/// Why a case was refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// By the merge.
    Merge(MergeError),
    /// By the validator.
    Validate(Rejection),
}

impl From<MergeError> for Refusal {
    fn from(error: MergeError) -> Self {
        Self::Merge(error)
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Validate(rejection)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Merge(error) => error.fmt(f),
            Self::Validate(rejection) => rejection.fmt(f),
        }
    }
}

impl Refusal {
    /// Compares with upstream's text: for a conflict both plugins, field and key; for the rest, who refused.
    pub(super) fn compare(&self, expected: &str) -> Result<(), Difference> {
        let same = match self {
            // Upstream puts a space after the field even where no key follows.
            Self::Merge(error) => error.to_string() == expected.trim_end(),
            Self::Validate(_) => expected.starts_with("validator \"00-default-validator\" rejected"),
        };
        if same { Ok(()) } else { Err(difference(expected, &self.to_string())) }
    }
}

pub(super) fn difference(expected: &str, got: &str) -> Difference {
    Difference { path: "error".to_owned(), expected: expected.to_owned(), got: got.to_owned() }
}
