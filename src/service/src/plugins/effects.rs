//! What plugins request of containers that exist: updates and evictions, in replies to an event or
//! on their own. `update.rs` and `eviction.rs` perform them.

use crate::{
    plugins::description::described,
    resources::{changes::owning_plugins, owners},
};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate, FieldOwners, LinuxResources, OwningPlugins},
};
use nri_control::{DryRunEviction, DryRunUpdate};
use nri_merge::CreateOutcome;
use std::{collections::BTreeMap, fmt};

/// Updates and evictions, and the plugins that request them.
#[derive(Debug, Clone, Copy)]
pub struct Effects<'a> {
    /// Updates of containers.
    pub updates: &'a [ContainerUpdate],
    /// Evictions of containers.
    pub evictions: &'a [ContainerEviction],
    source: Source<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    /// One plugin, unsolicited.
    Plugin(&'a PluginId),
    /// All plugins that replied to an event: the owners of the fields that they set, and the plugin
    /// of each eviction by container.
    Replies(&'a OwningPlugins, &'a BTreeMap<String, PluginId>),
}

impl<'a> Effects<'a> {
    /// Returns what a plugin requests, unsolicited.
    pub fn of_plugin(
        plugin: &'a PluginId,
        updates: &'a [ContainerUpdate],
        evictions: &'a [ContainerEviction],
    ) -> Self {
        Self { updates, evictions, source: Source::Plugin(plugin) }
    }

    /// Returns what plugins request in their replies to an event, with the owners of the fields and
    /// the plugin of each eviction.
    pub fn of_replies(
        updates: &'a [ContainerUpdate],
        evictions: &'a [ContainerEviction],
        owners: &'a OwningPlugins,
        evictors: &'a BTreeMap<String, PluginId>,
    ) -> Self {
        Self { updates, evictions, source: Source::Replies(owners, evictors) }
    }

    /// Whether a plugin requests them without an event.
    pub fn is_unsolicited(&self) -> bool {
        matches!(self.source, Source::Plugin(_))
    }

    /// Returns the owners of the fields that an update sets.
    pub(super) fn owners(&self, container: &str, resources: &LinuxResources) -> FieldOwners {
        match self.source {
            Source::Plugin(plugin) => owners::of_plugin(resources, &plugin.to_string()),
            Source::Replies(all, _) => all.owners.get(container).cloned().unwrap_or_default(),
        }
    }

    /// Returns the plugins that request the update of a container.
    pub(super) fn updaters(&self, container: &str) -> Vec<String> {
        match self.source {
            Source::Plugin(plugin) => vec![plugin.to_string()],
            Source::Replies(all, _) => {
                let plugins = all.owners.get(container).map(owning_plugins).unwrap_or_default();
                plugins.into_iter().map(str::to_owned).collect()
            }
        }
    }

    /// Returns the plugin that requests the eviction of a container.
    pub(super) fn evictor(&self, container: &str) -> String {
        let plugin = match self.source {
            Source::Plugin(plugin) => Some(plugin),
            Source::Replies(_, evictors) => evictors.get(container),
        };
        plugin.map(ToString::to_string).unwrap_or_default()
    }

    /// Describes the updates.
    pub fn described_updates(&self) -> impl Iterator<Item = DryRunUpdate> {
        self.updates.iter().map(|update| DryRunUpdate {
            container: update.container_id.clone(),
            plugins: self.updaters(&update.container_id),
            fields: described(update),
        })
    }

    /// Describes the evictions.
    pub fn described_evictions(&self) -> impl Iterator<Item = DryRunEviction> {
        self.evictions.iter().map(|eviction| DryRunEviction {
            container: eviction.container_id.clone(),
            plugin: self.evictor(&eviction.container_id),
            reason: eviction.reason.clone(),
        })
    }
}

impl<'a> From<&'a CreateOutcome> for Effects<'a> {
    fn from(outcome: &'a CreateOutcome) -> Self {
        let CreateOutcome { updates, evictions, owners, evictors, .. } = outcome;
        Self::of_replies(updates, evictions, owners, evictors)
    }
}

impl fmt::Display for Effects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Plugin(plugin) => plugin.fmt(f),
            Source::Replies(..) => f.write_str("plugins"),
        }
    }
}
