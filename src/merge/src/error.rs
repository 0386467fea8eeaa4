//! Why a reply cannot be merged. Whose fault it is: always a plugin's.

use nri_api::PluginId;
use nri_api::proto::Field;

/// Why a plugin's reply was refused as a whole; nothing of it was merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Two plugins, or one plugin twice, set what can be set once. The text is upstream's.
    #[error("plugins \"{plugin}\" and \"{owner}\" both tried to set {field:?}{}", key.as_deref().map(|k| format!(" {k}")).unwrap_or_default())]
    Conflict {
        /// Whose reply was refused.
        plugin: PluginId,
        /// Who set it before, or removed what yet another plugin had set.
        owner: PluginId,
        /// What both want.
        field: Field,
        /// Which one of it (destination, name, path, page size …), where the field is owned by key.
        key: Option<String>,
        /// Container that both want it for.
        container: String,
    },
    /// A reply to CreateContainer updates the very container, which does not exist yet.
    #[error("plugin \"{plugin}\" asked update of \"{container}\" during creation")]
    UpdateOfCreated {
        /// Whose reply was refused.
        plugin: PluginId,
        /// The container being created.
        container: String,
    },
    /// A reply to CreateContainer evicts the very container, which does not exist yet.
    #[error("plugin \"{plugin}\" asked eviction of \"{container}\" during creation")]
    EvictionOfCreated {
        /// Whose reply was refused.
        plugin: PluginId,
        /// The container being created.
        container: String,
    },
}

impl MergeError {
    /// The plugin whose reply was refused.
    pub fn plugin(&self) -> &PluginId {
        match self {
            Self::Conflict { plugin, .. }
            | Self::UpdateOfCreated { plugin, .. }
            | Self::EvictionOfCreated { plugin, .. } => plugin,
        }
    }

    /// The container that the reply was about.
    pub fn container(&self) -> &str {
        match self {
            Self::Conflict { container, .. }
            | Self::UpdateOfCreated { container, .. }
            | Self::EvictionOfCreated { container, .. } => container,
        }
    }
}
