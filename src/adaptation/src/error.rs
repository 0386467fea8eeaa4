//! Why a request failed, why a session did not come about, and by whose fault.

use nri_api::proto::Event;
use nri_api::{InvalidPlugin, PluginId, UnknownEvents};
use nri_merge::MergeError;
use nri_wire::{CallError, WireError};
use std::io;
use std::time::Duration;

use crate::discovery::SkipReason;
use crate::peers::PeerRefusal;
use crate::permissions::PermissionDenied;
use crate::synchronize::TooLarge;

/// Why a request failed, or the adaptation could not start.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The plugin answered with an error.
    #[error("plugin {plugin} failed {event:?} of {subject}: {message} (status {code})")]
    Refused {
        /// Who.
        plugin: PluginId,
        /// At which event.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// A ttrpc status code.
        code: i32,
        /// What the plugin said.
        message: String,
    },
    /// The plugin did not answer, and the request must not go on without it.
    #[error("plugin {plugin} could not be asked for {event:?} of {subject}: {source}")]
    Unavailable {
        /// Who.
        plugin: PluginId,
        /// At which event.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// Timeout, closed connection or broken protocol.
        source: CallError,
    },
    /// The request is larger than the protocol can carry.
    #[error(
        "{event:?} of {subject} takes {size} bytes, more than a message to plugin {plugin} can hold"
    )]
    TooLarge {
        /// For whom it was.
        plugin: PluginId,
        /// Which event.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// Size of the message.
        size: usize,
    },
    /// What plugins ask for contradicts.
    #[error("{event:?} of {subject}: {source}")]
    Merge {
        /// At which event.
        event: Event,
        /// Id of the container.
        subject: String,
        /// Names the plugins, field and key.
        source: MergeError,
    },
    /// A plugin asks for what it may not.
    #[error("{event:?}: {denied}")]
    Denied {
        /// At which event.
        event: Event,
        /// Names the plugin, what it asked for, and the rule.
        denied: PermissionDenied,
    },
    /// A validator rejected what the plugins want.
    #[error("validator {validator} rejected the adjustment of {container}: {reason}")]
    Rejected {
        /// A plugin as `NN-name`, or the name of the built-in validator.
        validator: String,
        /// Id of the container.
        container: String,
        /// As the validator put it.
        reason: String,
    },
    /// A plugin without which no container may be created is not there.
    #[error("required plugin {plugin} is not active, so {container} cannot be created")]
    RequiredMissing {
        /// As the policy names it.
        plugin: String,
        /// Id of the container.
        container: String,
    },
    /// A plugin that is required could not be brought up.
    #[error("required plugin {plugin} cannot be started: {source}")]
    Start {
        /// Which.
        plugin: PluginId,
        /// Why.
        source: SessionError,
    },
    /// The configuration allows no plugins but the launched.
    #[error("plugins may not connect by themselves: disabled by configuration")]
    ConnectionsDisabled,
}

/// Who has to do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Who made the request.
    Caller,
    /// Who configured the node.
    Operator,
    /// The plugin that the error names, or its author.
    Plugin,
}

/// Why a plugin did not become active.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Its file is not one to launch.
    #[error(transparent)]
    Skipped(#[from] SkipReason),
    /// The file to launch is not executable.
    #[error("not an executable file")]
    NotExecutable,
    /// The file to launch is not there any more.
    #[error("its file is gone")]
    FileGone,
    /// Its program did not start.
    #[error("cannot be executed: {0}")]
    Launch(#[source] io::Error),
    /// The connection broke at once.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It did not register in time.
    #[error("did not register within {0:?}")]
    RegistrationTimeout(Duration),
    /// It went away before it registered.
    #[error("went away before it registered: {0}")]
    Unregistered(String),
    /// It registered with an index or name that is not acceptable.
    #[error(transparent)]
    Identity(#[from] InvalidPlugin),
    /// It registered with a name that is another's.
    #[error("user {uid} may not register as {plugin}; uids of its [[plugin]] could allow it")]
    Name {
        /// What it calls itself.
        plugin: PluginId,
        /// Whose it is.
        uid: u32,
    },
    /// `Configure` failed.
    #[error("cannot be configured: {0}")]
    Configure(#[source] CallError),
    /// It subscribed to events that do not exist.
    #[error(transparent)]
    Events(#[from] UnknownEvents),
    /// `Synchronize` failed.
    #[error("cannot be synchronized: {0}")]
    Synchronize(#[source] CallError),
    /// The state takes several messages, which plugins of before v0.7 do not understand.
    #[error(
        "cannot be synchronized: the state takes {parts} messages, and the plugin is too old to put them together"
    )]
    CannotSplit {
        /// How many.
        parts: usize,
    },
    /// Something in the state is larger than a message.
    #[error("cannot be synchronized: {0}")]
    TooLarge(#[from] TooLarge),
    /// The updates in its answer to `Synchronize` contradict one another.
    #[error("answered Synchronize with updates that cannot be made: {0}")]
    Updates(#[source] MergeError),
    /// Its answer to `Synchronize` asks for what it may not.
    #[error("answered Synchronize with updates that it may not make: {0}")]
    Denied(#[source] PermissionDenied),
    /// It may not connect.
    #[error(transparent)]
    Peer(#[from] PeerRefusal),
    /// The adaptation is being shut down.
    #[error("no plugin is taken any more: shutting down")]
    ShuttingDown,
}

impl AdaptError {
    /// By whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused { .. }
            | Self::Unavailable { .. }
            | Self::Merge { .. }
            | Self::Denied { .. }
            | Self::Rejected { .. } => Fault::Plugin,
            Self::TooLarge { .. } => Fault::Caller,
            Self::RequiredMissing { .. } | Self::Start { .. } | Self::ConnectionsDisabled => {
                Fault::Operator
            }
        }
    }

    /// The plugin that it is about, if it is one.
    pub fn plugin(&self) -> Option<&PluginId> {
        match self {
            Self::Refused { plugin, .. }
            | Self::Unavailable { plugin, .. }
            | Self::TooLarge { plugin, .. }
            | Self::Start { plugin, .. } => Some(plugin),
            Self::Merge { source, .. } => Some(source.plugin()),
            Self::Denied { denied, .. } => Some(&denied.plugin),
            Self::Rejected { .. } | Self::RequiredMissing { .. } | Self::ConnectionsDisabled => {
                None
            }
        }
    }
}
