//! Outcomes of merges.

use crate::error::MergeError;
use crate::unowned::UnownedChanges;
use nri_api::PluginId;
use nri_api::proto::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, LinuxResources,
    OwningPlugins, PluginInstance, PodSandbox, ValidateContainerAdjustmentRequest,
};
use std::collections::BTreeMap;

/// Outcome of a creation.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateOutcome {
    /// Merged adjustment, in the form that the crate's documentation describes.
    pub adjust: ContainerAdjustment,
    /// Updates of other containers, one per container, in the order of the first request.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to evict, one entry per container, in the order of the first request.
    pub evictions: Vec<ContainerEviction>,
    /// Plugin that requested each eviction first, by container.
    pub evictors: BTreeMap<String, PluginId>,
    /// Owners of all fields that were set, of this container and others.
    pub owners: OwningPlugins,
    /// Plugins of changes that have no owner.
    pub unowned: UnownedChanges,
    /// Pod of the container.
    pub pod: PodSandbox,
    /// Container with the adjustment applied.
    pub container: Container,
    /// Container as the engine requested it.
    pub pristine: Container,
    /// Plugins that were consulted, in call order.
    pub consulted: Vec<PluginId>,
    /// Updates that conflict and have `ignore_failure` set. They are not part of `updates`.
    pub failed: Vec<FailedUpdate>,
    /// Parts of replies that have no effect: the first sixteen paths of each plugin.
    pub ignored: Vec<Ignored>,
}

/// Outcome of an update that an engine requested. The default sets nothing and has no plugins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateOutcome {
    /// Resources to apply to the container: the requested ones, overlaid with those that plugins
    /// set.
    pub resources: LinuxResources,
    /// Whether any plugin sent an update of the requested container, even an empty one.
    pub touched: bool,
    /// Merged update of the requested container, if any plugin sent one. It has resources if one of
    /// the updates has, and `ignore_failure` if all of them have.
    pub merged_update: Option<ContainerUpdate>,
    /// Updates of other containers, as in [`CreateOutcome::updates`].
    pub updates: Vec<ContainerUpdate>,
    /// Containers to evict, as in [`CreateOutcome::evictions`].
    pub evictions: Vec<ContainerEviction>,
    /// Plugin that requested each eviction first, by container.
    pub evictors: BTreeMap<String, PluginId>,
    /// Owners of all fields that were set.
    pub owners: OwningPlugins,
    /// Plugins that were consulted, in call order.
    pub consulted: Vec<PluginId>,
    /// Updates that conflict, as in [`CreateOutcome::failed`].
    pub failed: Vec<FailedUpdate>,
    /// Parts of replies that have no effect, as in [`CreateOutcome::ignored`].
    pub ignored: Vec<Ignored>,
}

/// Outcome of updates that plugins requested without a request of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatesOutcome {
    /// One update per container, in the order of the first request.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to evict, as in [`CreateOutcome::evictions`].
    pub evictions: Vec<ContainerEviction>,
    /// Plugin that requested each eviction first, by container.
    pub evictors: BTreeMap<String, PluginId>,
    /// Owners of all fields that were set.
    pub owners: OwningPlugins,
    /// Plugins that were consulted, in call order.
    pub consulted: Vec<PluginId>,
    /// Updates that conflict, as in [`CreateOutcome::failed`].
    pub failed: Vec<FailedUpdate>,
    /// Parts of replies that have no effect, as in [`CreateOutcome::ignored`].
    pub ignored: Vec<Ignored>,
}

/// An update with `ignore_failure` that could not be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedUpdate {
    /// Plugin that requested the update.
    pub plugin: PluginId,
    /// The update as requested.
    pub update: ContainerUpdate,
    /// Conflict that prevented the update.
    pub error: MergeError,
}

/// A part of a reply that has no effect. Upstream NRI drops it silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Plugin that sent the reply.
    pub plugin: PluginId,
    /// Container that the part is about.
    pub container: String,
    /// Path of the field in the reply, possibly followed by `: ` and the reason.
    pub what: String,
}

impl CreateOutcome {
    /// Returns the request for validators.
    pub fn validation(&self) -> ValidateContainerAdjustmentRequest {
        let instance = |plugin: &PluginId| PluginInstance {
            name: plugin.name.to_string(),
            index: plugin.index.to_string(),
            ..Default::default()
        };
        ValidateContainerAdjustmentRequest {
            pod: Some(self.pod.clone()).into(),
            container: Some(self.pristine.clone()).into(),
            adjust: Some(self.adjust.clone()).into(),
            update: self.updates.clone(),
            owners: Some(self.owners.clone()).into(),
            plugins: self.consulted.iter().map(instance).collect(),
            ..Default::default()
        }
    }
}
