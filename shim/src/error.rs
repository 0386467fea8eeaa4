//! What can go wrong, in one line each.

use nri_control::{ClientError, LaunchError};
use nri_locate::{BreakGlassHint, ConfigFileError, RuntimeNotFound};
use std::{ffi::OsString, io, path::PathBuf};

/// Why the real runtime is not run, or not as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    // The caller's.
    #[error("--{0} needs a value")]
    OwnFlag(&'static str),
    #[error("container id {0:?} is not acceptable: {1}")]
    Id(OsString, &'static str),
    #[error("bundle {path}: {0}", path = .1.display())]
    Bundle(#[source] io::Error, PathBuf),
    #[error("resources {path}: {0}", path = .1.display())]
    Resources(#[source] io::Error, PathBuf),
    #[error("resources {path}: larger than {limit} bytes", path = .0.display(), limit = crate::resources::LIMIT)]
    ResourcesTooLarge(PathBuf),
    #[error("process document {path}: {1} is not what it has to be", path = .0.display())]
    ExecProcess(PathBuf, &'static str),
    #[error("{path}: {0}", path = .1.display())]
    ExecFile(#[source] io::Error, PathBuf),
    #[error("{path}: {0}", path = .1.display())]
    ExecJson(#[source] serde_json::Error, PathBuf),
    // The operator's.
    #[error("{0}; {BreakGlassHint}")]
    Config(#[from] ConfigFileError),
    #[error(transparent)]
    Runtime(#[from] RuntimeNotFound),
    // The host's.
    #[error("{0}; {BreakGlassHint}")]
    Launch(#[from] LaunchError),
    #[error("{0}; {BreakGlassHint}")]
    Client(#[from] ClientError),
    #[error("nrid gave an answer that does not fit; {BreakGlassHint}")]
    Answer,
    #[error("cannot run {path}: {0}", path = .1.display())]
    Exec(#[source] io::Error, PathBuf),
    #[error("cannot {1}: {0}")]
    System(#[source] io::Error, &'static str),
    // A plugin's.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_locate::{BYPASS_ENV, BYPASS_FILE};

    #[test]
    fn break_glass_is_named() {
        let text = Error::Answer.to_string();
        assert!(text.contains(&format!("{BYPASS_ENV}=1")) && text.contains(BYPASS_FILE), "{text}");
    }
}
