//! The merge of the replies to UpdateContainer.

use crate::updates::Collected;
use crate::{MergeError, UpdateOutcome};
use nri_api::PluginId;
use nri_api::proto::{
    Container, ContainerUpdate, LinuxResources, PodSandbox, UpdateContainerRequest,
    UpdateContainerResponse,
};

/// An update that an engine asked for, on its way through the plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateMerge {
    pod: PodSandbox,
    container: Container,
    requested: LinuxResources,
    collected: Collected,
}

impl UpdateMerge {
    /// The container as it is, and the resources that the engine wants it to have.
    pub fn new(pod: PodSandbox, container: Container, requested: LinuxResources) -> Self {
        let base = Some((container.id.clone(), requested.clone()));
        Self { pod, container, requested, collected: Collected { base, ..Default::default() } }
    }

    /// What the next plugin is asked: the resources as updated so far.
    pub fn request(&self) -> UpdateContainerRequest {
        UpdateContainerRequest {
            pod: Some(self.pod.clone()).into(),
            container: Some(self.container.clone()).into(),
            linux_resources: Some(self.resources().clone()).into(),
            ..Default::default()
        }
    }

    /// Notes that `plugin` was asked, though it may have nothing to say.
    pub fn consulted(&mut self, plugin: &PluginId) {
        self.collected.consult(plugin);
    }

    /// Merges a reply.
    ///
    /// # Errors
    /// A conflict, unless its update says that failures are to be ignored. Then nothing of the
    /// reply is merged.
    pub fn reply(
        &mut self,
        plugin: &PluginId,
        reply: UpdateContainerResponse,
    ) -> Result<(), MergeError> {
        let plan = self.collected.plan(plugin, reply.update, reply.evict)?;
        self.collected.apply(plugin, plan);
        Ok(())
    }

    /// What came out.
    pub fn finish(self) -> UpdateOutcome {
        let resources = self.resources().clone();
        let Collected { owners, mut updates, evictions, failed, ignored, consulted, .. } =
            self.collected;
        let place = updates.iter().position(|u| u.container_id == self.container.id);
        let answer = place.map(|place| updates.remove(place));
        UpdateOutcome {
            resources,
            touched: answer.is_some(),
            answer,
            updates,
            evictions,
            owners: owners.to_proto(),
            consulted,
            failed,
            ignored,
        }
    }

    fn answer(&self) -> Option<&ContainerUpdate> {
        self.collected.updates.iter().find(|u| u.container_id == self.container.id)
    }

    fn resources(&self) -> &LinuxResources {
        self.answer().and_then(|u| u.linux.resources.as_ref()).unwrap_or(&self.requested)
    }
}
