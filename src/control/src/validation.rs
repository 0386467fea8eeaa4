//! What `nrid --validate` prints, and `nrictl validate` shows.

use serde::{Deserialize, Serialize};

/// Results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validation {
    /// The results.
    pub items: Vec<Validated>,
}

impl Validation {
    /// Adds a result.
    pub fn add(&mut self, severity: ValidationSeverity, about: &str, text: impl Into<String>) {
        self.items.push(Validated { severity, about: about.to_owned(), text: text.into() });
    }

    /// Whether no check found a problem.
    pub fn is_valid(&self) -> bool {
        self.items.iter().all(|item| item.severity != ValidationSeverity::Problem)
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validated {
    /// Severity.
    pub severity: ValidationSeverity,
    /// What was checked: `configuration`, `plugin`, `block I/O`, `RDT`, `CDI`.
    pub about: String,
    /// The file, and what is wrong with it.
    pub text: String,
}

/// Severity of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidationSeverity {
    /// The file can be used.
    Ok,
    /// A fact that is also true on healthy hosts.
    Info,
    /// Probably not meant so.
    Warning,
    /// The file cannot be used, or not all of it.
    Problem,
}
