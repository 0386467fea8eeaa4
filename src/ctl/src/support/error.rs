//! Reasons why a support bundle cannot be made.

use std::{io, path::PathBuf};

/// Failure of `nrictl support-bundle`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SupportError {
    /// This user may not ask `nrid`, so that the archive would hold nothing but errors.
    #[error("cannot reach nrid and its files: run nrictl as root")]
    NeedsRoot,
    #[error("{path}: {source}")]
    Archive {
        /// Path of the archive.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("this program cannot be found: {0}")]
    OwnProgram(#[source] io::Error),
    #[error("patterns of secrets: {0}")]
    Mask(#[from] regex::Error),
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
}
