//! Why `nrid` was not told, or what it said.

use nri_control::ClientError;
use nri_locate::BreakGlassHint;
use std::{ffi::OsString, io};

/// In one line each.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unexpected argument {0:?}")]
    Usage(OsString),
    #[error("missing argument: {0}")]
    Missing(&'static str),
    #[error("container state on stdin: {0}")]
    State(#[source] io::Error),
    #[error("container state on stdin is larger than {0} bytes")]
    StateTooLarge(u64),
    #[error("{0}; start nrid with 'nrictl start' and create the container again; {BreakGlassHint}")]
    Nrid(#[from] ClientError),
    #[error("nrid gave an answer that does not fit")]
    Answer,
    #[error("{0}")]
    Refused(String),
}
