//! Errors of a case: compares the type of our error with the text of upstream's error.

use super::difference::Difference;
use nri_merge::MergeError;
use nri_merge::validator::Rejection;
use nri_spec::{ApplyError, OciConfigError, WrongType};

/// Error of a case.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// The merge failed.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The validator rejected the merged adjustment.
    #[error(transparent)]
    Validate(#[from] Rejection),
    /// The adjustment of the OCI config failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The OCI config of the case cannot be parsed.
    #[error(transparent)]
    Config(#[from] OciConfigError),
    /// The OCI config of the case has a field of the wrong type.
    #[error(transparent)]
    Container(#[from] WrongType),
}

impl Refusal {
    /// Compares this error with the text and stage of upstream's error. For a conflict, both
    /// plugins, the field and the key must be those of the text. For other errors, the stage
    /// and the subject must be equal; a rejection by the validator may have the stage `merge`,
    /// because upstream runs validators inside its merge.
    pub(super) fn compare(&self, expected: &str, stage: &str) -> Result<(), Difference> {
        let is_same = match self {
            // Upstream writes a space after the field even if no key follows.
            Self::Merge(error) => stage == "merge" && upstream_text(error) == expected.trim_end(),
            Self::Validate(rejection) => {
                ["merge", "validate"].contains(&stage)
                    && expected.starts_with("validator \"00-default-validator\" rejected")
                    && expected.contains(subject(rejection))
            }
            Self::Apply(ApplyError::UnknownClass { name, .. }) => {
                stage == "apply" && expected.ends_with(&format!("class {name:?}"))
            }
            Self::Apply(_) => stage == "apply",
            Self::Config(_) | Self::Container(_) => false,
        };
        if is_same {
            Ok(())
        } else {
            Err(difference(&format!("{expected} ({stage})"), &self.to_string()))
        }
    }
}

/// Returns upstream's text of an error. Upstream names a field as the enum of the protocol does.
fn upstream_text(error: &MergeError) -> String {
    match error {
        MergeError::Conflict { plugin, owner, field, key, .. } => {
            let key = key.as_deref().map(|key| format!(" {key}")).unwrap_or_default();
            format!("plugins \"{plugin}\" and \"{owner}\" both tried to set {field:?}{key}")
        }
        other => other.to_string(),
    }
}

/// Returns the part of upstream's error text that identifies the rule of a rejection.
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

/// Returns the difference between an expected and an actual error.
pub(super) fn difference(expected: &str, got: &str) -> Difference {
    Difference { path: "error".to_owned(), expected: expected.to_owned(), got: got.to_owned() }
}
