//! [`Plugin`]: the status of a plugin.

use nri_adaptation::{PluginOrigin, PluginState, PluginStatus};
use nri_api::PluginId;
use std::path::PathBuf;

/// A plugin, and whether it receives events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plugin {
    /// Index and name; `None` until an external plugin has registered.
    pub id: Option<PluginId>,
    /// File that the plugin was launched from; `None` if it connected by itself.
    pub launched: Option<PathBuf>,
    /// Process id, if it is known.
    pub pid: Option<u32>,
    /// Whether the plugin is registered, configured and synchronized.
    pub active: bool,
    /// Last failure, or the reason why the plugin was closed.
    pub last_error: Option<String>,
}

impl Plugin {
    pub(crate) fn of(status: &PluginStatus) -> Self {
        let launched = match &status.origin {
            PluginOrigin::Launched(file) => Some(file.clone()),
            PluginOrigin::External => None,
        };
        Self {
            id: status.id.clone(),
            launched,
            pid: status.pid,
            active: status.state == PluginState::Active,
            last_error: status.last_error.clone(),
        }
    }
}
