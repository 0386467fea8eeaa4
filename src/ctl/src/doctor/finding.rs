//! Findings of `nrictl doctor`, and how they are printed.

use crate::output::output;
use nri_control::printable;
use serde::Serialize;
use std::io::{self, Write};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    Note,
    Problem,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    level: Severity,
    /// Subject of the check.
    about: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// All findings.
#[derive(Debug, Default)]
pub(crate) struct DoctorReport(Vec<Finding>);

impl DoctorReport {
    /// Adds a check that passed.
    pub(super) fn ok(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Severity::Ok, about, text.into());
    }

    /// Adds a note for the administrator.
    pub(super) fn note(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Severity::Note, about, text.into());
    }

    /// Adds a problem.
    pub(super) fn problem(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Severity::Problem, about, text.into());
    }

    /// Adds a problem or a note.
    pub(super) fn problem_if(&mut self, is_problem: bool, about: &'static str, text: String) {
        self.add(if is_problem { Severity::Problem } else { Severity::Note }, about, text);
    }

    fn add(&mut self, level: Severity, about: &'static str, text: String) {
        self.0.push(Finding { level, about, text, advice: None });
    }

    /// Adds advice to the last finding.
    pub(super) fn advise(&mut self, advice: impl Into<String>) {
        if let Some(last) = self.0.last_mut() {
            last.advice = Some(advice.into());
        }
    }

    /// Whether any finding is a problem.
    pub(crate) fn has_problem(&self) -> bool {
        self.0.iter().any(|finding| finding.level == Severity::Problem)
    }

    /// Prints the findings as text or as JSON.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = output();
        if json {
            let report = serde_json::json!({"ok": !self.has_problem(), "findings": self.0});
            return writeln!(out, "{report}");
        }
        for finding in &self.0 {
            let mark = match finding.level {
                Severity::Ok => "ok",
                Severity::Note => "note",
                Severity::Problem => "PROBLEM",
            };
            writeln!(out, "{mark:<8}{:<15}{}", finding.about, printable(&finding.text))?;
            if let Some(advice) = &finding.advice {
                // The advice is below the text: 23 = 8 + 15 columns.
                writeln!(out, "{:<23}{advice}", "")?;
            }
        }
        Ok(())
    }
}
