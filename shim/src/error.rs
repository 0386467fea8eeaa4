//! Errors of the wrapper, grouped by cause: the caller, the operator, the host, or a plugin.
//!
//! Each error is one line, which engines show to users.

use crate::exec::Excess;
use nri_control::{ClientError, LaunchError};
use nri_locate::{BreakGlassHint, ConfigFileError, RuntimeNotFound};
use std::{ffi::OsString, io, path::PathBuf};

/// Reason why the real runtime is not run, or not as requested.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    // Caused by the caller: the engine, or a user.
    #[error("--{0} needs a value")]
    OwnFlag(&'static str),
    #[error("container id {id:?} is not acceptable: {why}")]
    Id {
        /// The id.
        id: OsString,
        /// Why it is not acceptable.
        why: &'static str,
    },
    #[error("bundle {}: {source}", path.display())]
    Bundle {
        /// The bundle's directory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("resources {}: {source}", path.display())]
    Resources {
        /// File of `update --resources`, or `stdin`.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("resources {}: larger than {limit} bytes", path.display())]
    ResourcesTooLarge {
        /// File of `update --resources`, or `stdin`.
        path: PathBuf,
        /// Largest size in bytes.
        limit: u64,
    },
    #[error("process file {}: {member} is malformed", path.display())]
    ExecProcess {
        /// File of `exec --process`.
        path: PathBuf,
        /// The malformed member.
        member: &'static str,
    },
    #[error("{}: {source}", path.display())]
    ExecFile {
        /// Marker, or file of `exec --process`.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("{}: {source}", path.display())]
    ExecJson {
        /// Marker, or file of `exec --process`.
        path: PathBuf,
        /// Cause of the failure.
        source: serde_json::Error,
    },
    #[error("more than the container has: {0}")]
    ExecLimits(Excess),
    #[error("exec in {id} refused: {why}")]
    ExecRefused {
        /// The container's id.
        id: String,
        /// Why it is refused.
        why: String,
    },
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
    #[error("cannot run {}: {source}", path.display())]
    Exec {
        /// Path of the real runtime.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    #[error("cannot {action}: {source}")]
    System {
        /// What failed, as in "cannot ACTION".
        action: &'static str,
        /// Cause of the failure.
        source: io::Error,
    },
    // Caused by a plugin or by the host: the message of nrid.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Exit code of the call. That of a failed `exec` is runc's, to distinguish it from those of
    /// commands.
    pub(crate) fn exit_code(&self) -> i32 {
        if matches!(self, Self::ExecRefused { .. }) { 255 } else { 1 }
    }
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
