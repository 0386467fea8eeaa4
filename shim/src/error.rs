//! Errors of the wrapper, grouped by cause: the caller, the operator, the host, or a plugin.
//!
//! Each error is one line, which engines show to users; the exit code is always 1.

use nri_control::{ClientError, LaunchError};
use nri_locate::{BreakGlassHint, ConfigFileError, RuntimeNotFound};
use std::{ffi::OsString, io, path::PathBuf};

/// Reason why the real runtime is not run, or not as requested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    // Caused by the caller: the engine, or a user.
    #[error("--{0} needs a value")]
    OwnFlag(&'static str),
    #[error("container id {0:?} is not acceptable: {1}")]
    Id(OsString, &'static str),
    #[error("bundle {path}: {0}", path = .1.display())]
    Bundle(#[source] io::Error, PathBuf),
    #[error("resources {path}: {0}", path = .1.display())]
    Resources(#[source] io::Error, PathBuf),
    #[error("resources {path}: larger than {limit} bytes", path = .0.display(), limit = .1)]
    ResourcesTooLarge(PathBuf, u64),
    #[error("process file {path}: {1} is malformed", path = .0.display())]
    ExecProcess(PathBuf, &'static str),
    #[error("{path}: {0}", path = .1.display())]
    ExecFile(#[source] io::Error, PathBuf),
    #[error("{path}: {0}", path = .1.display())]
    ExecJson(#[source] serde_json::Error, PathBuf),
    // Caused by the operator, who configured the node.
    #[error("{0}; {BreakGlassHint}")]
    Config(#[from] ConfigFileError),
    #[error(transparent)]
    Runtime(#[from] RuntimeNotFound),
    // Caused by the host.
    #[error("{0}; {BreakGlassHint}")]
    Launch(#[from] LaunchError),
    #[error("{0}; {BreakGlassHint}")]
    Client(#[from] ClientError),
    #[error("nrid sent a reply of the wrong type; {BreakGlassHint}")]
    Reply,
    #[error("cannot run {path}: {0}", path = .1.display())]
    Exec(#[source] io::Error, PathBuf),
    #[error("cannot {1}: {0}")]
    System(#[source] io::Error, &'static str),
    // Caused by a plugin or by the host: the message of nrid.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_locate::{BYPASS_ENV, BYPASS_FILE};

    #[test]
    fn errors_of_nrid_name_break_glass() {
        let text = Error::Reply.to_string();
        assert!(text.contains(&format!("{BYPASS_ENV}=1")) && text.contains(BYPASS_FILE), "{text}");
    }
}
