//! A verb as a wrapper requests it, parsed.

use crate::{
    error::{CallerError, Error},
    host::runtime::LowLevelRuntime,
    state::key::ContainerKey,
};
use nri_control::{Begin, Reply};
use std::os::fd::OwnedFd;

/// Longest id: it is the name of a file and of a directory.
const MAX_ID: usize = 255;

/// A verb that a wrapper is about to run.
#[derive(Debug)]
pub struct VerbRequest {
    /// The container.
    pub key: ContainerKey,
    /// How to call the container's runtime.
    pub runtime: LowLevelRuntime,
    /// The request as it was received.
    pub begin: Begin,
    /// The bundle's directory, for a verb that has one.
    pub bundle: Option<OwnedFd>,
}

impl VerbRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// The id cannot be the name of a file.
    pub fn parse(begin: Begin, bundle: Option<OwnedFd>) -> Result<Self, CallerError> {
        if !is_file_name(&begin.id) {
            return Err(CallerError::InvalidId);
        }
        let runtime = LowLevelRuntime::new(
            &begin.runtime,
            &begin.globals,
            begin.root.as_ref(),
            &begin.environment,
            &begin.cwd,
        );
        let root = nri_control::resolved_root(&runtime.root());
        let key = ContainerKey { root, id: begin.id.clone() };
        Ok(Self { key, runtime, begin, bundle })
    }

    /// The reply to a verb that fails.
    pub fn refuse(&self, error: &Error) -> Reply {
        refuse(&self.key.id, error)
    }
}

/// The reply to a request that fails, and its log line. The message names the container; an empty
/// id names none.
pub fn refuse(id: &str, error: &Error) -> Reply {
    let message = error.line(id);
    tracing::warn!("{message}");
    Reply::Refused { message }
}

/// Ids are names of files and directories, those of the runtime too.
fn is_file_name(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && id.len() <= MAX_ID && !id.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_paths_are_refused() {
        for id in ["", ".", "..", "a/b", "../../etc/x", "/", "a\0b", &"x".repeat(256)] {
            assert!(!is_file_name(id), "{id:?}");
        }
        for id in ["a", "...", "a.b_c-d+e", "a\nb", &"x".repeat(255)] {
            assert!(is_file_name(id), "{id:?}");
        }
    }
}
