//! Errors of the hook.

use nri_control::ClientError;
use nri_locate::BreakGlassHint;
use std::{ffi::OsString, io};

/// Reason why the report failed or was refused. Each error is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("unexpected argument {0:?}")]
    Usage(OsString),
    #[error("missing argument: {0}")]
    Missing(&'static str),
    #[error("cannot read the container state from stdin: {0}")]
    State(#[source] io::Error),
    #[error("container state on stdin is larger than {0} bytes")]
    StateTooLarge(u64),
    #[error("{0}; start nrid with 'nrictl start' and create the container again; {BreakGlassHint}")]
    Nrid(#[from] ClientError),
    #[error("nrid sent a reply of the wrong type")]
    Reply,
    #[error("{0}")]
    Refused(String),
}
