//! Merge of the replies to `CreateContainer`.

use crate::error::MergeError;
use crate::fields;
use crate::ignored;
use crate::merged::Merged;
use crate::outcome::CreateOutcome;
use crate::unowned::UnownedChanges;
use crate::updates::Collected;
use nri_api::PluginId;
use nri_api::proto::{Container, CreateContainerRequest, CreateContainerResponse, PodSandbox};

/// Merge of the replies to one `CreateContainer`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateMerge {
    pod: PodSandbox,
    merged: Merged,
    collected: Collected,
    unowned: UnownedChanges,
}

impl CreateMerge {
    /// Starts with the container as the engine requests it.
    pub fn new(pod: PodSandbox, container: Container) -> Self {
        let collected = Collected { created: Some(container.id.clone()), ..Default::default() };
        Self { pod, merged: Merged::new(container), collected, unowned: UnownedChanges::default() }
    }

    /// Returns the pod.
    pub fn pod(&self) -> &PodSandbox {
        &self.pod
    }

    /// Returns the container as adjusted so far.
    pub fn container(&self) -> &Container {
        &self.merged.container
    }

    /// Returns the request for the next plugin: the container as adjusted so far.
    pub fn request(&self) -> CreateContainerRequest {
        CreateContainerRequest {
            pod: Some(self.pod.clone()).into(),
            container: Some(self.merged.container.clone()).into(),
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
    /// If the reply conflicts with an earlier reply, or updates or evicts the container that is
    /// being created. Nothing of the reply is merged then.
    pub fn reply(
        &mut self,
        plugin: &PluginId,
        reply: CreateContainerResponse,
    ) -> Result<(), MergeError> {
        let id = &self.merged.container.id;
        let mut claims = self.collected.owners.claims(plugin, id);
        if let Err(error) = fields::claim_all(&reply.adjust, &mut claims) {
            self.collected.owners.rollback_all();
            return Err(error);
        }
        let plan = self.collected.plan(plugin, reply.update, reply.evict)?;
        self.collected.apply(plugin, plan);
        self.collected.record_ignored(
            plugin,
            &self.merged.container.id,
            ignored::in_adjustment(&reply.adjust),
        );
        self.unowned.record(plugin, &reply.adjust);
        fields::apply_all(&reply.adjust, &mut self.merged);
        Ok(())
    }

    /// Returns the outcome.
    pub fn finish(self) -> CreateOutcome {
        let Merged { pristine, container, adjust } = self.merged;
        let Collected { owners, updates, evictions, evictors, failed, ignored, consulted, .. } =
            self.collected;
        CreateOutcome {
            adjust,
            updates,
            evictions,
            evictors,
            owners: owners.to_proto(),
            unowned: UnownedChanges { removed: owners.removers(), ..self.unowned },
            pod: self.pod,
            container,
            pristine,
            consulted,
            failed,
            ignored,
        }
    }
}
