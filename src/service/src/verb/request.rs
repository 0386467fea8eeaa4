//! [`VerbRequest`]: the parsed request of a wrapper that is about to run a verb.

use crate::{
    error::{CallerError, Error, HostError},
    host::{
        file_access::{self, FileSystem, LOOKUP_TIMEOUT},
        mount_namespace::MountNamespace,
        near_files,
        runtime::LowLevelRuntime,
    },
    state::key::ContainerKey,
};
use nri_adaptation::{RequestTrace, TraceContext};
use nri_control::{Begin, Reply};
use std::{os::fd::OwnedFd, path::PathBuf, sync::Arc};

/// Maximum length of an id in bytes: runtimes create a directory whose name is the id, and the name
/// of a file has at most this length.
const MAX_ID: usize = 255;

/// A verb that a wrapper is about to run.
pub struct VerbRequest {
    /// The container.
    pub key: ContainerKey,
    /// The container's runtime: program, global options, environment.
    pub runtime: LowLevelRuntime,
    /// The request as it was received.
    pub begin: Begin,
    /// The bundle's directory, for a verb that has one.
    pub bundle: Option<OwnedFd>,
    /// The trace to which the calls of plugins belong.
    pub trace: Arc<RequestTrace>,
}

impl VerbRequest {
    /// Parses a request. `namespace` is the mount namespace of the wrapper, if it differs from that
    /// of `nrid`.
    ///
    /// # Errors
    /// The id cannot be the name of a file, or the file system of the runtime's root directory
    /// hangs.
    pub async fn parse(
        begin: Begin,
        bundle: Option<OwnedFd>,
        namespace: Option<Arc<MountNamespace>>,
    ) -> Result<Self, Error> {
        if !is_file_name(&begin.id) {
            return Err(CallerError::InvalidId.into());
        }
        let mut runtime = LowLevelRuntime::new(
            &begin.runtime,
            &begin.globals,
            begin.root.as_ref(),
            &begin.environment,
            &begin.cwd,
        );
        runtime.set_namespace(namespace);
        let root = resolved_root(runtime.root()).await?;
        let key = ContainerKey { root, id: begin.id.clone() };
        let environment = begin.environment.iter().filter_map(|entry| entry.0.to_str());
        let trace = Arc::new(TraceContext::of_environment(environment).into());
        Ok(Self { key, runtime, begin, bundle, trace })
    }

    /// Builds the reply to a verb that fails, and logs the error.
    pub fn refuse(&self, error: &Error) -> Reply {
        refuse(&self.key.id, error)
    }
}

/// Resolves links in the path of a root directory.
async fn resolved_root(root: PathBuf) -> Result<PathBuf, HostError> {
    if let Some(resolved) = near_files::resolved(&root) {
        return Ok(resolved);
    }
    let (file_system, path) = (FileSystem::directory(&root), root.clone());
    let resolve = move || nri_locate::resolved_root(&path);
    file_access::run(file_system, LOOKUP_TIMEOUT, resolve)
        .await
        .map_err(|error| HostError::RuntimeRoot { root, source: error.into() })
}

/// Builds the reply to a request that fails, and logs the error. An empty `id` stands for an
/// unknown container.
pub fn refuse(id: &str, error: &Error) -> Reply {
    let message = error.line(id);
    tracing::warn!("{message}");
    Reply::Refused { message }
}

/// Whether an id can be the name of a file or a directory.
fn is_file_name(id: &str) -> bool {
    !matches!(id, "" | "." | "..") && id.len() <= MAX_ID && !id.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_cannot_be_file_names_are_refused() {
        for id in ["", ".", "..", "a/b", "../../etc/x", "/", "a\0b", &"x".repeat(MAX_ID + 1)] {
            assert!(!is_file_name(id), "{id:?}");
        }
        for id in ["a", "...", "a.b_c-d+e", "a\nb", &"x".repeat(MAX_ID)] {
            assert!(is_file_name(id), "{id:?}");
        }
    }
}
