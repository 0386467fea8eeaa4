//! Reasons why nothing was installed or uninstalled.

use super::{containers::RunningContainers, editing::error::FileError};
use crate::exit_code::{FAILURE, NEEDS_ROOT, PROBLEM};
use rustix::process::geteuid;
use std::{io, path::PathBuf, process::ExitCode};

/// Failure of a command. Nothing has changed then, except after [`Self::Output`], and after a
/// [`Self::Write`] that names written files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {source}; {}", written_text(.written))]
    Write { path: PathBuf, source: io::Error, written: String },
    #[error(
        "{path}: {reason}; as a last resort, remove this file: `uninstall` then finds runtimes by \
         the wrapper's path"
    )]
    Record { path: PathBuf, reason: String },
    #[error(
        "{file}: {path} exists and is not ours ({value}); choose another name with --name or \
         --runtime"
    )]
    Collision { file: PathBuf, path: String, value: String },
    #[error(
        "{engine} has a runtime {name:?} of its own; choose another name with --name or --runtime"
    )]
    Reserved { engine: &'static str, name: String },
    #[error(
        "{0:?} is not a name for a runtime: letters, digits, '.', '_' and '-', beginning with a \
         letter or digit"
    )]
    Name(String),
    #[error(
        "{engine} is not installed: {why}; to write its files before, name its version \
         (--engine-version) or its file (--engine-config)"
    )]
    Absent { engine: &'static str, why: String },
    #[error("two runtimes are called {0:?}")]
    NameTwice(String),
    #[error("{0}: a runtime must be named by its absolute path")]
    Relative(PathBuf),
    #[error("{0}: with --root, a file must be named by its absolute path inside the root")]
    RelativeInside(PathBuf),
    #[error("{0}: not an executable file")]
    NoProgram(PathBuf),
    #[error("{0}: this is the wrapper itself")]
    Wrapper(PathBuf),
    #[error("nri-container-runtime is neither beside nrictl nor in {0}; name it with --wrapper")]
    NoWrapper(String),
    #[error("{0} exists and is not a link to the wrapper")]
    LinkTaken(PathBuf),
    #[error("{name} already runs {real} for {engines}; choose another name with --runtime")]
    NameOfOther { name: String, real: PathBuf, engines: String },
    #[error(
        "{file}: {option} is a flag of dockerd there; dockerd does not start when a key is set in \
         both places"
    )]
    Flag { file: PathBuf, option: &'static str },
    #[error("{path}: {source}; dockerd does not start with comments or mistakes in this file")]
    NotJson { path: PathBuf, source: serde_json::Error },
    #[error("{engine} has no NRI of its own; omit --nri")]
    NoNri { engine: &'static str },
    #[error(
        "--user configures the engine of a user without root: run nrictl as that user, not as root"
    )]
    UserIsRoot,
    #[error(
        "--user is for podman, docker and nerdctl; rootless {engine} has to be configured by hand"
    )]
    NoUserFiles { engine: &'static str },
    #[error(
        "--user needs the home directory of the user: HOME is not set, or belongs to another user"
    )]
    NoHome,
    #[error("{engine} has no default runtime in any file; give --runtime at each call")]
    NoDefault { engine: &'static str },
    #[error("{path}: {reason}; nrid and the wrapper would refuse it")]
    OwnConfig { path: PathBuf, reason: String },
    #[error(
        "{0} is of version 1, from which containerd 2 takes no CRI settings; see `containerd \
         config migrate`"
    )]
    OldVersion(PathBuf),
    #[error("{file}: unsupported pattern in imports: {pattern:?}")]
    Import { file: PathBuf, pattern: String },
    #[error("{engine} has {containers}; {effect}. {remedy} first, or give --force")]
    InUse {
        engine: &'static str,
        containers: RunningContainers,
        effect: &'static str,
        remedy: &'static str,
    },
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl InstallError {
    /// Whether the command failed for lack of permissions.
    fn is_denied(&self) -> bool {
        match self {
            Self::File(FileError::Read { source, .. }) | Self::Write { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    /// Returns the exit code: that root is needed, that the machine failed, or that the command was
    /// refused.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            _ if self.is_denied() && !geteuid().is_root() => ExitCode::from(NEEDS_ROOT),
            Self::File(FileError::Read { .. }) | Self::Write { .. } | Self::Output(_) => {
                ExitCode::from(FAILURE)
            }
            _ => ExitCode::from(PROBLEM),
        }
    }
}

fn written_text(written: &str) -> String {
    match written {
        "" => "nothing has changed".to_owned(),
        written => format!("already written: {written}; the same command continues from there"),
    }
}
