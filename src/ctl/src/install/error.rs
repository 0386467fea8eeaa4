//! Why nothing was installed or uninstalled.

use super::document::DocumentError;
use std::{io, path::PathBuf, process::ExitCode};

/// What went wrong. Nothing has changed then; what had been written is put back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0}: {1}; nothing has changed")]
    Write(PathBuf, #[source] io::Error),
    #[error("{0}: {1}; it could not be put back as it was: {2}")]
    HalfWritten(PathBuf, io::Error, String),
    #[error("{0} was changed by somebody else at this moment; nothing has changed")]
    Raced(PathBuf),
    #[error("{0}: {1}")]
    Document(PathBuf, #[source] DocumentError),
    #[error("{0}: {1}; without this file `uninstall` finds what is ours by the wrapper's path")]
    Manifest(PathBuf, String),
    #[error(
        "{file}: {path} is there and is not ours ({value}); choose another name with --name or --runtime"
    )]
    Collision { file: PathBuf, path: String, value: String },
    #[error(
        "{engine} has a runtime {name:?} of its own; choose another name with --name or --runtime"
    )]
    Reserved { engine: &'static str, name: String },
    #[error(
        "{0:?} is no name for a runtime: letters, digits, '.', '_' and '-', beginning with a letter or digit"
    )]
    Name(String),
    #[error("two runtimes are called {0:?}")]
    NameTwice(String),
    #[error("{0}: a runtime is named by its absolute path")]
    Relative(PathBuf),
    #[error("{0}: with --root, a file is named by its absolute path inside")]
    RelativeInside(PathBuf),
    #[error("{0}: no program")]
    NoProgram(PathBuf),
    #[error("{0}: this is the wrapper itself")]
    Wrapper(PathBuf),
    #[error("nri-container-runtime is not beside nrictl, nor in {0}; say where with --wrapper")]
    NoWrapper(String),
    #[error("{0}: something else is there, where a link to the wrapper has to be")]
    LinkTaken(PathBuf),
    #[error("{0} runs {1}; another engine has this name for {2}")]
    NameOfOther(String, PathBuf, String),
    #[error(
        "{file}: {option} is a flag of dockerd there; dockerd does not start when a key is set in both places"
    )]
    Flag { file: PathBuf, option: &'static str },
    #[error("{engine} has no NRI of its own: --nri has no meaning for it")]
    NoNri { engine: &'static str },
    #[error("{engine} has no default runtime in any file; give --runtime at each call")]
    NoDefault { engine: &'static str },
    #[error("{0}: {1}; `nrid` and the wrapper would not read it")]
    Ours(PathBuf, String),
    #[error(
        "{0} is of version 1, from which containerd 2 takes no CRI settings; see `containerd config migrate`"
    )]
    OldVersion(PathBuf),
    #[error("{file}: what {pattern:?} imports cannot be told")]
    Import { file: PathBuf, pattern: String },
    #[error(
        "{file}: {path} decides instead of the default runtime's name; it is deprecated since containerd 1.3, remove it first"
    )]
    Overridden { file: PathBuf, path: String },
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

impl InstallError {
    /// 1: the machine did not do it; 4: we refuse.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Read(..)
            | Self::Write(..)
            | Self::HalfWritten(..)
            | Self::Raced(_)
            | Self::Output(_) => ExitCode::FAILURE,
            _ => ExitCode::from(4),
        }
    }
}
