//! Errors of a merge. All of them are caused by a plugin's reply.

use nri_api::proto::Field;
use nri_api::{PluginId, full_name};

/// Reason why a plugin's reply was refused as a whole. Nothing of it was merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Two plugins, or one plugin twice, set a field that has one owner. The text is that of
    /// upstream NRI, except for the name of the field.
    #[error(
        "plugins \"{plugin}\" and \"{owner}\" both tried to set {}",
        full_name(*field, key.as_deref())
    )]
    Conflict {
        /// Plugin whose reply was refused.
        plugin: PluginId,
        /// Plugin that set the field before, or removed a value that another plugin had set.
        owner: PluginId,
        /// Field that both plugins set.
        field: Field,
        /// Key (destination, name, path, page size), if the field is owned by key.
        key: Option<String>,
        /// Container whose field both plugins set.
        container: String,
    },
    /// A reply to `CreateContainer` updates the container that is being created. The text is the
    /// same as in upstream NRI.
    #[error("plugin \"{plugin}\" asked update of \"{container}\" during creation")]
    UpdateOfCreated {
        /// Plugin whose reply was refused.
        plugin: PluginId,
        /// The container being created.
        container: String,
    },
    /// A reply to `CreateContainer` evicts the container that is being created. The text follows
    /// that of [`Self::UpdateOfCreated`].
    #[error("plugin \"{plugin}\" asked eviction of \"{container}\" during creation")]
    EvictionOfCreated {
        /// Plugin whose reply was refused.
        plugin: PluginId,
        /// The container being created.
        container: String,
    },
}

impl MergeError {
    /// Returns the plugin whose reply was refused.
    pub fn plugin(&self) -> &PluginId {
        match self {
            Self::Conflict { plugin, .. }
            | Self::UpdateOfCreated { plugin, .. }
            | Self::EvictionOfCreated { plugin, .. } => plugin,
        }
    }

    /// Returns the container that the conflict, update or eviction is about.
    pub fn container(&self) -> &str {
        match self {
            Self::Conflict { container, .. }
            | Self::UpdateOfCreated { container, .. }
            | Self::EvictionOfCreated { container, .. } => container,
        }
    }
}
