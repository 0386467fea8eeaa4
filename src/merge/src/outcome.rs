//! What merges end in.

use crate::MergeError;
use nri_api::PluginId;
use nri_api::proto::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, LinuxResources,
    OwningPlugins, PluginInstance, PodSandbox, ValidateContainerAdjustmentRequest,
};

/// What the plugins made of a container that is being created.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateOutcome {
    /// All that is to change, in the form that the crate's documentation describes.
    pub adjust: ContainerAdjustment,
    /// Updates of other containers, one per container, in the order in which they were first asked
    /// for.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to evict, one entry per container, in the order in which they were first asked
    /// for.
    pub evictions: Vec<ContainerEviction>,
    /// Who set what, this container and others.
    pub owners: OwningPlugins,
    /// Its pod.
    pub pod: PodSandbox,
    /// The container with the adjustment made.
    pub container: Container,
    /// The container as the engine asked for it.
    pub pristine: Container,
    /// The plugins that were asked, in that order.
    pub consulted: Vec<PluginId>,
    /// Updates that conflict and whose failure their plugin asked to ignore. They left no trace in
    /// `updates`.
    pub failed: Vec<FailedUpdate>,
    /// What plugins asked for and the protocol's semantics give no meaning: of each plugin the
    /// first sixteen paths.
    pub ignored: Vec<Ignored>,
}

/// What the plugins made of an update that an engine asked for. The default is that of no plugin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateOutcome {
    /// The resources that the container is to get: those that were asked for, with what the plugins
    /// set on top.
    pub resources: LinuxResources,
    /// Whether any plugin sent an update of the requested container, be it an empty one.
    pub touched: bool,
    /// The plugins' merged update of the requested container, if any sent one: `resources` where
    /// one of them set resources, none where all were empty; `ignore_failure` if all of them said
    /// so.
    pub answer: Option<ContainerUpdate>,
    /// Updates of other containers, as in [`CreateOutcome::updates`].
    pub updates: Vec<ContainerUpdate>,
    /// As in [`CreateOutcome::evictions`].
    pub evictions: Vec<ContainerEviction>,
    /// Who set what.
    pub owners: OwningPlugins,
    /// The plugins that were asked, in that order.
    pub consulted: Vec<PluginId>,
    /// As in [`CreateOutcome::failed`].
    pub failed: Vec<FailedUpdate>,
    /// As in [`CreateOutcome::ignored`].
    pub ignored: Vec<Ignored>,
}

/// What plugins want changed in containers that exist.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatesOutcome {
    /// One update per container, in the order in which they were first asked for.
    pub updates: Vec<ContainerUpdate>,
    /// As in [`CreateOutcome::evictions`].
    pub evictions: Vec<ContainerEviction>,
    /// Who set what.
    pub owners: OwningPlugins,
    /// The plugins that were asked, in that order.
    pub consulted: Vec<PluginId>,
    /// As in [`CreateOutcome::failed`].
    pub failed: Vec<FailedUpdate>,
    /// As in [`CreateOutcome::ignored`].
    pub ignored: Vec<Ignored>,
}

/// An update with `ignore_failure` that could not be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedUpdate {
    /// Who asked.
    pub plugin: PluginId,
    /// What for, as asked.
    pub update: ContainerUpdate,
    /// Why not.
    pub error: MergeError,
}

/// Something in a reply that has no effect. Upstream drops it without a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Who asked.
    pub plugin: PluginId,
    /// For which container.
    pub container: String,
    /// What for: the path of the field in the reply.
    pub what: String,
}

impl CreateOutcome {
    /// What validators are asked to judge.
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
