//! The process that registers a plugin, and whether it may replace the session that already has
//! the plugin's index and name.

use nri_api::PluginId;
use std::fmt;

/// The process at the plugin's end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) pid: Option<u32>,
    /// User of the process; `None` for a launched plugin, and if it was not checked.
    pub(crate) uid: Option<u32>,
    /// Cgroup of the systemd service that runs the process, if one does.
    pub(crate) service: Option<String>,
    /// Whether the plugin connected by itself, and was not launched.
    pub(crate) is_external: bool,
}

impl Registrant {
    /// Checks whether a session of this process may replace the session of `holder`, which is
    /// registered as `plugin`.
    pub(crate) fn check_replaces(
        &self,
        plugin: &PluginId,
        holder: &Self,
    ) -> Result<(), ReplacementRefused> {
        let why = match (self.is_external, holder.is_external) {
            (true, false) => ReplacementBar::Launched,
            (false, true) => ReplacementBar::External,
            _ if self.uid != holder.uid => ReplacementBar::User,
            _ => return Ok(()),
        };
        Err(self.refused(plugin, holder.pid, why))
    }

    /// Whether this is the process of a session that `holder` has `replaced`, or another process of
    /// its service, which was started again.
    pub(crate) fn has_returned(&self, replaced: &Self, holder: &Self) -> bool {
        let is_process = |other: &Self| self.pid.is_some() && self.pid == other.pid;
        let is_service = |other: &Self| self.service.is_some() && self.service == other.service;
        (is_process(replaced) && !is_process(holder))
            || (is_service(replaced) && !is_service(holder))
    }

    /// Returns the refusal to replace the session of process `holder`.
    pub(crate) fn refused(
        &self,
        plugin: &PluginId,
        holder: Option<u32>,
        why: ReplacementBar,
    ) -> ReplacementRefused {
        ReplacementRefused { plugin: plugin.clone(), pid: self.pid, holder, why }
    }
}

/// A session was refused because another session has its index and name, and may not be replaced
/// by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "refused: {} has registered as {plugin} already, and {} may not replace it: {why}",
    ProcessName(*holder),
    ProcessName(*pid)
)]
pub struct ReplacementRefused {
    /// Index and name of both.
    pub plugin: PluginId,
    /// Process of the session that was refused, if known.
    pub pid: Option<u32>,
    /// Process of the session that has the name, if known.
    pub holder: Option<u32>,
    /// Reason of the refusal.
    pub why: ReplacementBar,
}

/// Reason why a session may not replace another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplacementBar {
    /// The other session is of a launched plugin, and this one of an external plugin.
    #[error(
        "it is a launched plugin, which no external one replaces; connect with another index or \
         name, or remove the file of the launched plugin"
    )]
    Launched,
    /// The other session is of an external plugin, and this one of a launched plugin.
    #[error(
        "it is an external plugin, which no launched one replaces; end the external plugin, or \
         give one of them another index or name"
    )]
    External,
    /// The sessions are of different users.
    #[error("it is of another user; end one of them, or give it another index or name")]
    User,
    /// The session of this name has replaced one of the same process or service.
    #[error(
        "it has replaced a session of this process or of its service, which comes back again and \
         again; end one of the processes, or give it another index or name"
    )]
    Returned,
    /// The session of this name was replaced too often.
    #[error(
        "sessions of this name were replaced twice within a minute, or could not be synchronized \
         before containers changed; end one of the processes, or give it another index or name"
    )]
    TooOften,
}

/// Names a process in messages.
pub(crate) struct ProcessName(pub(crate) Option<u32>);

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("an unknown process"),
        }
    }
}
