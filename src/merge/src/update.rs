//! Merge of the replies to `UpdateContainer`.

use crate::error::MergeError;
use crate::outcome::UpdateOutcome;
use crate::updates::Collected;
use nri_api::PluginId;
use nri_api::proto::{
    Container, ContainerUpdate, LinuxResources, PodSandbox, UpdateContainerRequest,
    UpdateContainerResponse,
};

/// Merge of the replies to one `UpdateContainer`.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateMerge {
    pod: PodSandbox,
    container: Container,
    requested: LinuxResources,
    collected: Collected,
}

impl UpdateMerge {
    /// Starts with the current container and the resources that the engine requests.
    pub fn new(pod: PodSandbox, container: Container, requested: LinuxResources) -> Self {
        let base = Some((container.id.clone(), requested.clone()));
        Self { pod, container, requested, collected: Collected { base, ..Default::default() } }
    }

    /// Returns the pod.
    pub fn pod(&self) -> &PodSandbox {
        &self.pod
    }

    /// Returns the container.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Returns the request for the next plugin: the resources as updated so far.
    pub fn request(&self) -> UpdateContainerRequest {
        UpdateContainerRequest {
            pod: Some(self.pod.clone()).into(),
            container: Some(self.container.clone()).into(),
            linux_resources: Some(self.resources().clone()).into(),
            ..Default::default()
        }
    }

    /// Records that `plugin` was consulted, even if it does not reply.
    pub fn consulted(&mut self, plugin: &PluginId) {
        self.collected.consult(plugin);
    }

    /// Merges a reply.
    ///
    /// # Errors
    /// If an update of the reply conflicts with an earlier update and does not set
    /// `ignore_failure`. Nothing of the reply is merged then.
    pub fn reply(
        &mut self,
        plugin: &PluginId,
        reply: UpdateContainerResponse,
    ) -> Result<(), MergeError> {
        let plan = self.collected.plan(plugin, reply.update, reply.evict)?;
        self.collected.apply(plugin, plan);
        Ok(())
    }

    /// Returns the outcome.
    pub fn finish(self) -> UpdateOutcome {
        let resources = self.resources().clone();
        let Collected {
            owners, mut updates, evictions, evictors, failed, ignored, consulted, ..
        } = self.collected;
        let at = updates.iter().position(|u| u.container_id == self.container.id);
        let merged_update = at.map(|at| updates.remove(at));
        UpdateOutcome {
            resources,
            touched: merged_update.is_some(),
            merged_update,
            updates,
            evictions,
            evictors,
            owners: owners.to_proto(),
            consulted,
            failed,
            ignored,
        }
    }

    /// Returns the merged update of the requested container, if a plugin sent one.
    fn merged_update(&self) -> Option<&ContainerUpdate> {
        self.collected.updates.iter().find(|u| u.container_id == self.container.id)
    }

    /// Returns the requested resources, overlaid with those that plugins set so far.
    pub fn resources(&self) -> &LinuxResources {
        let merged = self.merged_update().and_then(|u| u.linux.resources.as_ref());
        merged.unwrap_or(&self.requested)
    }
}
