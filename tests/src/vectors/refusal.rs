//! Refusals: ours by type, upstream's by its text.

use super::difference::Difference;
use nri_merge::MergeError;
use nri_merge::validator::Rejection;
use nri_spec::{ApplyError, OciConfigError, WrongType};

/// Why a case was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// By the merge.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// By the validator.
    #[error(transparent)]
    Validate(#[from] Rejection),
    /// While the OCI config was adjusted.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The OCI config of the case is none.
    #[error(transparent)]
    Document(#[from] OciConfigError),
    /// The OCI config of the case is not as the specification says.
    #[error(transparent)]
    Container(#[from] WrongType),
}

impl Refusal {
    /// Compares with upstream's refusal: of a conflict both plugins, field and key, which the text
    /// holds; of the rest the stage (upstream's validators run inside its merge) and what it is
    /// about.
    pub(super) fn compare(&self, expected: &str, stage: &str) -> Result<(), Difference> {
        let same = match self {
            // Upstream puts a space after the field even where no key follows.
            Self::Merge(error) => stage == "merge" && error.to_string() == expected.trim_end(),
            Self::Validate(rejection) => {
                ["merge", "validate"].contains(&stage)
                    && expected.starts_with("validator \"00-default-validator\" rejected")
                    && expected.contains(subject(rejection))
            }
            Self::Apply(ApplyError::UnknownClass { name, .. }) => {
                stage == "apply" && expected.ends_with(&format!("class {name:?}"))
            }
            Self::Apply(_) => stage == "apply",
            Self::Document(_) | Self::Container(_) => false,
        };
        if same {
            Ok(())
        } else {
            Err(difference(&format!("{expected} ({stage})"), &self.to_string()))
        }
    }
}

/// Words of upstream's text for the same rule.
fn subject(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::OciHooks { .. } => "OCI hook injection",
        Rejection::Seccomp { .. } => "seccomp policy adjustment",
        Rejection::Namespaces { .. } => "namespace adjustment",
        Rejection::Sysctls { .. } => "sysctl adjustment",
        Rejection::MissingPlugins { .. } => "not present",
        Rejection::InvalidAnnotation { .. } => "annotation",
    }
}

pub(super) fn difference(expected: &str, got: &str) -> Difference {
    Difference { path: "error".to_owned(), expected: expected.to_owned(), got: got.to_owned() }
}
