//! Errors of a connection and of its session.

use nri_api::{InvalidPlugin, PluginId};
use nri_wire::{CallError, Closed, WireError};
use std::{io, path::PathBuf};

/// Error of a connection to a runtime, or of its session.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// The plugin has no name or no index: the builder, the environment that a launching runtime
    /// sets, and the program's file name lack it.
    #[error("the plugin has no {0}: set the {0}, or name the program NN-name")]
    NoIdentity(&'static str),
    /// The name or index is invalid.
    #[error("invalid name or index")]
    Identity(#[from] InvalidPlugin),
    /// `NRI_PLUGIN_SOCKET` is not the number of a file descriptor.
    #[error("NRI_PLUGIN_SOCKET={0:?} is not a file descriptor")]
    LaunchedSocket(String),
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

fn list(failures: &[(PathBuf, io::Error)]) -> String {
    let failures = failures.iter().map(|(path, error)| format!("{}: {error}", path.display()));
    failures.collect::<Vec<_>>().join(", ")
}
