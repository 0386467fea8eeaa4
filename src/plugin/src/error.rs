//! Errors of a connection and of its session.

use nri_api::{InvalidPlugin, PluginId};
use nri_wire::{CallError, Closed, WireError};
use std::{io, path::PathBuf};

/// Error of a connection to a runtime, or of its session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StubError {
    /// The plugin has no name or no index: environment, builder and the program's file name lack
    /// it.
    #[error("the plugin has no {what}: set {variable}, or name the program NN-name")]
    NoIdentity {
        /// What is missing.
        what: &'static str,
        /// Environment variable that sets it.
        variable: &'static str,
    },
    /// The name or index is invalid.
    #[error("invalid name or index")]
    Identity(#[from] InvalidPlugin),
    /// `NRI_PLUGIN_SOCKET` is neither the number of a file descriptor nor an absolute path.
    #[error("NRI_PLUGIN_SOCKET={0:?} is neither a file descriptor nor an absolute path")]
    SocketVariable(String),
    /// The process has no socket of a runtime.
    #[error("NRI_PLUGIN_SOCKET has no file descriptor: only a runtime can launch this plugin")]
    NotLaunched,
    /// The configuration file could not be read, or the plugin refused it.
    #[error("{}: {reason}", .path.display())]
    ConfigFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file or of the plugin.
        reason: String,
    },
    /// The handlers of signals could not be installed.
    #[error("handling signals failed")]
    Signals(#[source] io::Error),
    /// The inherited socket could not be taken over.
    #[error("taking over inherited file descriptor {fd} failed")]
    Inherit {
        /// Number of the descriptor.
        fd: i32,
        /// Cause; `ENOSYS` on Linux before 5.6.
        #[source]
        source: io::Error,
    },
    /// The inherited socket was already used: a launched plugin has only one connection.
    #[error("the socket inherited from the runtime was already used")]
    Used,
    /// No socket accepted the connection.
    #[error("no NRI socket accepts connections: {}", list(.0))]
    Connect(Vec<(PathBuf, io::Error)>),
    /// The connection failed before the registration.
    #[error("connection failed")]
    Wire(#[from] WireError),
    /// The runtime refused the plugin.
    #[error("registration of {plugin} failed")]
    Register {
        /// Identity that was refused.
        plugin: PluginId,
        /// Error of the runtime.
        #[source]
        source: CallError,
    },
    /// The plugin refused its configuration.
    #[error("plugin {plugin} refused its configuration: {reason}")]
    Configure {
        /// Identity of the plugin.
        plugin: PluginId,
        /// Error of the plugin.
        reason: String,
    },
    /// The session failed.
    #[error("session of {plugin} failed")]
    Session {
        /// Identity of the plugin.
        plugin: PluginId,
        /// Cause.
        #[source]
        source: Closed,
    },
}

impl StubError {
    /// Whether another attempt to connect could succeed: the runtime may be absent, restarting, or
    /// refuse the plugin for now. All other errors are those of the plugin itself.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Connect(_) | Self::Wire(_) | Self::Register { .. } | Self::Session { .. }
        )
    }
}

/// Returns the text of an error and of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn list(failures: &[(PathBuf, io::Error)]) -> String {
    let failures = failures.iter().map(|(path, error)| format!("{}: {error}", path.display()));
    failures.collect::<Vec<_>>().join(", ")
}
