//! What is kept of the output of a launched plugin, for its status: the log has all lines.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Limit of the last line in characters: it is shown in the status, in one line of a terminal.
const MAX_LAST_LINE: usize = 256;

/// Limit of the warnings that are kept of a launch.
const MAX_WARNINGS: usize = 20;

/// What is kept of the lines that a program has written. Clones are the same lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptLines(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    last: Option<String>,
    /// Warnings and errors before the plugin was configured.
    warnings: Vec<String>,
    is_configured: bool,
}

impl KeptLines {
    /// Returns the last line.
    pub(crate) fn last(&self) -> Option<String> {
        self.kept().last.clone()
    }

    /// Returns the warnings and errors that the program wrote until it was configured: what it says
    /// of its configuration.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.kept().warnings.clone()
    }

    /// Keeps no further warnings.
    pub(crate) fn end_warnings(&self) {
        self.kept().is_configured = true;
    }

    /// Adds a line. `warning` is its text, if the program wrote it as a warning or an error.
    pub(crate) fn add(&self, line: &str, warning: Option<String>) {
        let mut kept = self.kept();
        if !kept.is_configured && kept.warnings.len() < MAX_WARNINGS {
            kept.warnings.extend(warning);
        }
        kept.last = Some(line.trim().chars().take(MAX_LAST_LINE).collect());
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }
}
