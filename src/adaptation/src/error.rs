//! Errors of requests and of plugin sessions, and the party that has to act on each.

use nri_api::proto::Event;
use nri_api::{InvalidPlugin, PluginId, UnknownEvents};
use nri_merge::MergeError;
use nri_wire::{CallError, WireError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::skip_reason::SkipReason;
use crate::plugin::registrant::ReplacementRefused;
use crate::policy::peers::PeerRefusal;
use crate::policy::permissions::PermissionDenied;

/// Error of a request, or of the start of the adaptation.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The plugin replied with an error, and thereby refused the request.
    #[error(
        "plugin {plugin} refused {event:?} of {subject}: {}",
        CallError::Status { code: *code, message: message.clone() }
    )]
    Refused {
        /// Plugin that refused the request.
        plugin: PluginId,
        /// Event that the plugin refused.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// ttrpc status code.
        code: i32,
        /// Message of the plugin.
        message: String,
    },
    /// The plugin replied with an error that is no refusal: the event cannot be refused, or the
    /// plugin's library says that the handler is missing or has failed.
    #[error(
        "plugin {plugin} failed {event:?} of {subject}: {}",
        CallError::Status { code: *code, message: message.clone() }
    )]
    Failed {
        /// Plugin that failed the request.
        plugin: PluginId,
        /// Event that the plugin failed.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// ttrpc status code.
        code: i32,
        /// Message of the plugin.
        message: String,
    },
    /// The plugin did not reply, and `on_failure` of its policy, or the plugin itself, makes the
    /// request fail.
    #[error(
        "plugin {plugin} could not handle {event:?} of {subject}: {source}{}",
        if *requested { "; the request fails because the plugin has asked for it (fail_request)" }
        else { "" }
    )]
    Unavailable {
        /// Plugin that did not reply.
        plugin: PluginId,
        /// Event that the plugin did not handle.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// Timeout, end of the session or broken protocol.
        source: NoReply,
        /// Whether only the failure policy that the plugin requested makes the request fail, not
        /// that of the administrator.
        requested: bool,
    },
    /// The validator did not reply, and `validation_failure` of its policy refuses the container.
    #[error(
        "plugin {plugin} could not handle {:?} of {container}: {source}; the container is refused \
         without the validator's verdict, {}",
        Event::VALIDATE_CONTAINER_ADJUSTMENT,
        if *requested {
            "since the validator has asked for it (fail_request), whatever its validation_failure"
        } else {
            "unless validation_failure of its policy is \"ignore\" (on_failure does not apply to \
             verdicts)"
        }
    )]
    NoVerdict {
        /// Validator that did not reply.
        plugin: PluginId,
        /// Id of the container.
        container: String,
        /// Timeout, end of the session or broken protocol.
        source: NoReply,
        /// Whether only the failure policy that the plugin requested refuses the container, not
        /// that of the administrator.
        requested: bool,
    },
    /// The request exceeds the size limit of the protocol.
    #[error(
        "{event:?} of {subject} takes {size} bytes, more than a message to plugin {plugin} can hold"
    )]
    TooLarge {
        /// Plugin that the request could not be sent to.
        plugin: PluginId,
        /// Event that the request is about.
        event: Event,
        /// Id of the container or pod.
        subject: String,
        /// Size of the message in bytes.
        size: usize,
    },
    /// The replies of the plugins contradict one another.
    #[error("{event:?} of {subject}: {source}")]
    Merge {
        /// Event that was replied to.
        event: Event,
        /// Id of the container.
        subject: String,
        /// Conflict; it names the plugins, the field and the key.
        source: MergeError,
    },
    /// A plugin has made the container larger than a message to other plugins can hold.
    #[error("plugin {plugin} makes {container} larger than a message can hold: {size} bytes")]
    Enlarged {
        /// Plugin that adjusted the container.
        plugin: PluginId,
        /// Id of the container.
        container: String,
        /// Size of the container in bytes.
        size: u64,
    },
    /// A plugin requested a change that its policy does not permit.
    #[error("{event:?}: {denied}")]
    Denied {
        /// Event that was replied to.
        event: Event,
        /// Denial; it names the plugin, the change and the rule.
        denied: PermissionDenied,
    },
    /// A validator rejected the adjustment.
    #[error("validator {validator} rejected the adjustment of {container}: {reason}")]
    Rejected {
        /// A plugin as `NN-name`, or the name of the built-in validator.
        validator: String,
        /// Id of the container.
        container: String,
        /// Reason that the validator gave.
        reason: String,
    },
    /// A required plugin is not active.
    #[error(
        "required plugin {plugin} is not active{}, so {container} cannot be created",
        .why.as_ref().map_or(String::new(), |why| format!(" ({why})"))
    )]
    RequiredMissing {
        /// Name in the policy that requires the plugin.
        plugin: String,
        /// Why a launched plugin of this name does not run.
        why: Option<String>,
        /// Id of the container.
        container: String,
    },
    /// A required plugin is not active, and an update changes a field that it has set.
    #[error(
        "required plugin {plugin} is not active{}, so {field} of {container}, which it has set, \
         cannot be updated",
        .why.as_ref().map_or(String::new(), |why| format!(" ({why})"))
    )]
    RequiredOwner {
        /// Plugin that owns the field.
        plugin: PluginId,
        /// Why a launched plugin of this name does not run.
        why: Option<String>,
        /// Name of the field.
        field: String,
        /// Id of the container.
        container: String,
    },
    /// A required plugin could not be launched.
    #[error("required plugin {plugin} cannot be started: {source}")]
    Start {
        /// The required plugin.
        plugin: PluginId,
        /// Reason why it did not become active.
        source: SessionError,
    },
    /// The plugin directory cannot be read in time, so it is unknown which plugins to launch.
    #[error("plugin directory {}: {source}", path.display())]
    PluginDirectory {
        /// The directory.
        path: PathBuf,
        /// Cause.
        source: SkipReason,
    },
    /// The configuration disables external plugins.
    #[error("external plugins are disabled by configuration")]
    ConnectionsDisabled,
}

/// Reason why a plugin did not reply.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    /// The plugin's session has ended. The text says how its program ended, if it was launched.
    #[error("{0}")]
    Exited(String),
    /// The plugin was still being synchronized.
    #[error("it is still being synchronized")]
    Unsynchronized,
    /// The request has used up the time that it has for all plugins together.
    #[error("the request has waited for plugins for {0:?} already")]
    OutOfTime(Duration),
    /// Timeout, closed connection or broken protocol.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Party that has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller that made the request.
    Caller,
    /// The operator that configured the node.
    Operator,
    /// The plugin that the error names, or its author.
    Plugin,
}

/// Reason why a plugin did not become active.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Discovery skipped the file.
    #[error(transparent)]
    Skipped(#[from] SkipReason),
    /// The file is not executable.
    #[error("not an executable file")]
    NotExecutable,
    /// The file was removed.
    #[error("file removed")]
    FileRemoved,
    /// The program could not be executed.
    #[error("cannot be executed: {0}")]
    Launch(#[source] io::Error),
    /// The connection failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The plugin did not register in time.
    #[error("did not register within {0:?}")]
    RegistrationTimeout(Duration),
    /// The plugin exited or disconnected before it registered.
    #[error("ended before it registered: {0}")]
    Unregistered(String),
    /// The plugin registered with an invalid index or name.
    #[error(transparent)]
    Identity(#[from] InvalidPlugin),
    /// The plugin registered with a name that its user may not use.
    #[error(
        "user {uid} may not register as {plugin}; to allow this, add {uid} to uids of the \
         policy for {plugin}"
    )]
    Name {
        /// Name that the plugin registered with.
        plugin: PluginId,
        /// User of the process that connected.
        uid: u32,
    },
    /// Another session has the index and name of the plugin, and may not be replaced by it.
    #[error(transparent)]
    Replacement(#[from] ReplacementRefused),
    /// `Configure` failed.
    #[error("cannot be configured{}: {source}", of_file(file.as_deref()))]
    Configure {
        /// File with its configuration, if it was sent one.
        file: Option<PathBuf>,
        /// The failure of the call.
        source: CallError,
    },
    /// The program failed after it had written something.
    #[error("{source}; last output: {output}")]
    WithOutput {
        /// The failure.
        source: Box<SessionError>,
        /// The last line that the program wrote.
        output: String,
    },
    /// The plugin failed with a new configuration, and was launched with the previous one.
    #[error("{0}; it continues with its previous configuration")]
    PreviousConfiguration(#[source] Box<SessionError>),
    /// The plugin subscribed to unknown events.
    #[error(transparent)]
    Events(#[from] UnknownEvents),
    /// `Synchronize` failed.
    #[error("cannot be synchronized: {0}")]
    Synchronize(#[source] CallError),
    /// Each synchronization took longer than requests wait for it, and containers have changed
    /// meanwhile.
    #[error(
        "cannot be synchronized: {times} times, containers have changed before the plugin replied"
    )]
    Outdated {
        /// Number of synchronizations.
        times: u32,
    },
    /// The snapshot takes several messages, which plugins before NRI v0.7 do not support.
    #[error(
        "cannot be synchronized: the snapshot takes {parts} messages, and the plugin is too old \
         for more than one"
    )]
    CannotSplit {
        /// Number of messages.
        parts: usize,
    },
    /// The updates in the reply to `Synchronize` contradict one another.
    #[error("updates in the reply to Synchronize contradict one another: {0}")]
    Updates(#[source] MergeError),
    /// The reply to `Synchronize` requests updates that the policy does not permit.
    #[error("updates in the reply to Synchronize are not permitted: {0}")]
    Denied(#[source] PermissionDenied),
    /// The connection was refused.
    #[error(transparent)]
    Peer(#[from] PeerRefusal),
    /// The adaptation is shutting down.
    #[error("no plugin is accepted: shutting down")]
    ShuttingDown,
}

impl AdaptError {
    /// Returns the party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Unavailable { .. }
            | Self::NoVerdict { .. }
            | Self::Merge { .. }
            | Self::Enlarged { .. }
            | Self::Denied { .. }
            | Self::Rejected { .. } => Fault::Plugin,
            Self::TooLarge { .. } => Fault::Caller,
            Self::RequiredMissing { .. }
            | Self::RequiredOwner { .. }
            | Self::Start { .. }
            | Self::PluginDirectory { .. }
            | Self::ConnectionsDisabled => Fault::Operator,
        }
    }

    /// Returns the plugin that the error names, if any.
    pub fn plugin(&self) -> Option<&PluginId> {
        match self {
            Self::Refused { plugin, .. }
            | Self::Failed { plugin, .. }
            | Self::Unavailable { plugin, .. }
            | Self::NoVerdict { plugin, .. }
            | Self::TooLarge { plugin, .. }
            | Self::Enlarged { plugin, .. }
            | Self::RequiredOwner { plugin, .. }
            | Self::Start { plugin, .. } => Some(plugin),
            Self::Merge { source, .. } => Some(source.plugin()),
            Self::Denied { denied, .. } => Some(&denied.plugin),
            Self::Rejected { .. }
            | Self::RequiredMissing { .. }
            | Self::PluginDirectory { .. }
            | Self::ConnectionsDisabled => None,
        }
    }
}

impl SessionError {
    /// Whether the plugin is not launched because another NRI runtime launches it.
    pub fn is_launched_by_other(&self) -> bool {
        matches!(self, Self::Skipped(SkipReason::LaunchedByOther(_)))
    }
}

/// Returns the file of a configuration, as part of a message.
fn of_file(file: Option<&Path>) -> String {
    file.map_or_else(String::new, |file| format!(" with {}", file.display()))
}
