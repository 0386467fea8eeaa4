//! Findings of `nrictl doctor`, and how they are printed.

use super::kinds::{FindingKind, Severity};
use crate::{
    output::output,
    table::{terminal_width, write_wrapped},
};
use serde::Serialize;
use std::io::{self, Write};

/// Result of one check. Its members are an interface of `nrictl doctor --json`.
#[derive(Debug, Serialize)]
struct Finding {
    code: &'static str,
    severity: Severity,
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
    /// Adds a finding.
    pub(super) fn add(&mut self, kind: FindingKind, text: impl Into<String>) {
        let FindingKind { code, about, severity } = kind;
        self.0.push(Finding { code, severity, about, text: text.into(), advice: None });
    }

    /// Adds advice to the last finding.
    pub(super) fn advise(&mut self, advice: impl Into<String>) {
        if let Some(last) = self.0.last_mut() {
            last.advice = Some(advice.into());
        }
    }

    /// Whether any finding is a problem.
    pub(crate) fn has_problem(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Problem)
    }

    /// Prints the findings as text or as JSON.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let (mut out, width) = (output(), terminal_width());
        if json {
            let report = serde_json::json!({"ok": !self.has_problem(), "findings": self.0});
            return writeln!(out, "{report}");
        }
        for finding in &self.0 {
            let mark = match finding.severity {
                Severity::Ok => "ok",
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Problem => "PROBLEM",
            };
            // The code is what the reader searches for in docs/reference/troubleshooting.md.
            let code = match finding.severity {
                Severity::Ok => String::new(),
                _ => format!("  [{}]", finding.code),
            };
            let prefix = format!("{mark:<8}{:<17}", finding.about);
            write_wrapped(&mut out, &prefix, &(finding.text.clone() + &code), width)?;
            if let Some(advice) = &finding.advice {
                // The advice is below the text: 25 = 8 + 17 columns.
                write_wrapped(&mut out, &" ".repeat(25), advice, width)?;
            }
        }
        Ok(())
    }
}
