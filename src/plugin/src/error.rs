//! Why a plugin could not connect, or why its session failed.

use nri_api::{InvalidPlugin, PluginId};
use nri_wire::{CallError, Closed, WireError};
use std::{io, path::PathBuf};

/// What can go wrong between a plugin and its runtime.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// The plugin has no name or no index: not from the builder, not from a runtime that launched
    /// it, not from the name of its program.
    #[error("the plugin has no {0}: give it one, or name its program NN-name")]
    NoIdentity(&'static str),
    /// The name or index is not acceptable.
    #[error("bad identity")]
    Identity(#[from] InvalidPlugin),
    /// `NRI_PLUGIN_SOCKET` is no file descriptor number.
    #[error("NRI_PLUGIN_SOCKET={0:?} is no file descriptor")]
    LaunchedSocket(String),
    /// The inherited socket could not be taken over.
    #[error("taking over inherited file descriptor {fd} failed")]
    Inherit {
        /// Its number.
        fd: i32,
        /// Why; `ENOSYS` on Linux before 5.6.
        #[source]
        source: io::Error,
    },
    /// A launched plugin has one connection in its life.
    #[error("the socket inherited from the runtime was used already")]
    Used,
    /// No socket answered.
    #[error("no NRI socket answers: {}", .0.iter().map(|(p, e)| format!("{}: {e}", p.display())).collect::<Vec<_>>().join(", "))]
    Connect(Vec<(PathBuf, io::Error)>),
    /// The connection ended while it was being set up.
    #[error("connection failed")]
    Wire(#[from] WireError),
    /// The runtime did not accept the plugin.
    #[error("registration of {plugin} failed")]
    Register {
        /// As whom it tried.
        plugin: PluginId,
        /// What the runtime says.
        #[source]
        source: CallError,
    },
    /// The plugin itself refused its configuration.
    #[error("plugin {plugin} refused its configuration: {reason}")]
    Configure {
        /// Which plugin.
        plugin: PluginId,
        /// What it says.
        reason: String,
    },
    /// The session broke.
    #[error("session of {plugin} failed")]
    Session {
        /// Which plugin.
        plugin: PluginId,
        /// How.
        #[source]
        source: Closed,
    },
}
