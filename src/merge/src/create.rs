//! The merge of the replies to CreateContainer.

use crate::merged::{self, Merged};
use crate::updates::Collected;
use crate::{CreateOutcome, MergeError, ignored};
use nri_api::PluginId;
use nri_api::proto::{Container, CreateContainerRequest, CreateContainerResponse, PodSandbox};

/// A container on its way through the plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMerge {
    pod: PodSandbox,
    merged: Merged,
    collected: Collected,
}

impl CreateMerge {
    /// The container as the engine asks for it.
    pub fn new(pod: PodSandbox, container: Container) -> Self {
        let collected = Collected { created: Some(container.id.clone()), ..Default::default() };
        Self { pod, merged: Merged::new(container), collected }
    }

    /// What the next plugin is asked: the container as adjusted so far.
    pub fn request(&self) -> CreateContainerRequest {
        CreateContainerRequest {
            pod: Some(self.pod.clone()).into(),
            container: Some(self.merged.container.clone()).into(),
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
    /// A conflict, or an update or eviction of the container itself. Then nothing of the reply is
    /// merged.
    pub fn reply(
        &mut self,
        plugin: &PluginId,
        reply: CreateContainerResponse,
    ) -> Result<(), MergeError> {
        let id = &self.merged.container.id;
        let mut claims = self.collected.owners.claims(plugin, id);
        if let Err(error) = merged::claim_all(&reply.adjust, &mut claims) {
            self.collected.owners.rollback_all();
            return Err(error);
        }
        let plan = self.collected.plan(plugin, reply.update, reply.evict)?;
        self.collected.apply(plugin, plan);
        self.collected.ignore(
            plugin,
            &self.merged.container.id,
            ignored::in_adjustment(&reply.adjust),
        );
        self.merged.apply(&reply.adjust);
        Ok(())
    }

    /// What came out.
    pub fn finish(self) -> CreateOutcome {
        let Merged { pristine, container, adjust } = self.merged;
        let Collected { owners, updates, evictions, failed, ignored, consulted, .. } =
            self.collected;
        CreateOutcome {
            adjust,
            updates,
            evictions,
            owners: owners.to_proto(),
            pod: self.pod,
            container,
            pristine,
            consulted,
            failed,
            ignored,
        }
    }
}
