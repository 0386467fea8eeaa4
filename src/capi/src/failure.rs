//! [`Failure`]: why a function failed, as a code and a text.

use std::ffi::c_int;

/// Reason for a failure. The codes are those of `enum nri_result` in `nri.h`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An argument that the function cannot take.
    #[error("{name}: {reason}")]
    Argument {
        /// Name of the parameter or field in `nri.h`.
        name: &'static str,
        /// Reason.
        reason: String,
    },
    /// The request failed.
    #[error(transparent)]
    Request(#[from] nri_runtime::Error),
    /// No thread could be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
    /// A message could not be written as JSON.
    #[error("cannot write {name} as JSON: {reason}")]
    Print {
        /// Name of the result.
        name: &'static str,
        /// Reason.
        reason: String,
    },
    /// A defect of the library.
    #[error("a defect of libnri: {0}")]
    Panic(String),
}

impl Failure {
    pub(crate) fn argument(name: &'static str, reason: impl ToString) -> Self {
        Self::Argument { name, reason: reason.to_string() }
    }

    /// Returns the code of the failure.
    pub(crate) fn code(&self) -> c_int {
        use nri_runtime::Error;
        match self {
            Self::Argument { .. } => 1,
            Self::Request(error) => match error {
                Error::RelativePath { .. }
                | Error::NoId(_)
                | Error::UnknownPod(_)
                | Error::UnknownContainer(_)
                | Error::Exists(_)
                | Error::Config { .. }
                | Error::WrongType { .. } => 1,
                Error::Refused { .. } | Error::Adjustment { .. } => 2,
                _ => 3,
            },
            Self::Threads(_) | Self::Print { .. } => 3,
            Self::Panic(_) => 4,
        }
    }
}
