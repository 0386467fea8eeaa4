//! Results of cases, as a run writes them.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

/// Result of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The runtime did what the case expects.
    Pass,
    /// It did something else.
    Fail,
    /// It did something else on purpose, and says so.
    Deliberate,
    /// It, or its driver, cannot do what the case needs.
    Unsupported,
    /// The case was left out.
    Skipped,
}

/// Result of a case, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the case.
    pub case: String,
    /// What the case requires.
    pub about: String,
    /// The result.
    pub status: Status,
    /// What differed, or why the case did not run; empty if it passed.
    #[serde(default)]
    pub detail: String,
    /// Counts of a group of vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// Counts of a group of vectors.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Vectors with the expected result.
    pub passed: usize,
    /// Vectors that were run.
    pub total: usize,
    /// Vectors that cannot be shown at this runtime, by reason.
    #[serde(default)]
    pub left_out: BTreeMap<String, usize>,
}

/// Results of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// Title of the column in the matrix.
    pub label: String,
    /// Name of the runtime, as it tells plugins.
    pub runtime: String,
    /// Version of the runtime, as it tells plugins.
    pub version: String,
    /// Version of NRI, announced or concluded from the events that the runtime knows.
    pub nri: String,
    /// Name and version of the engine, as the driver tells it.
    pub engine: String,
    /// Results by case.
    pub outcomes: Vec<Outcome>,
}

impl Results {
    /// Reads a file that a run has written.
    ///
    /// # Errors
    /// If the file cannot be read or has another form.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path))?;
        serde_json::from_str(&text)
            .map_err(|source| Error::Results { path: path.to_owned(), source })
    }

    /// Writes the results.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        fs::write(path, text + "\n").map_err(Error::file(path))
    }

    /// Number of cases with this result.
    pub fn count(&self, status: Status) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.status == status).count()
    }
}
