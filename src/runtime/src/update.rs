//! `UpdateContainer`: an update that the runtime's caller requests.

use nri_adaptation::{RequestContext, UpdateOutcome};
use nri_api::proto::{PostUpdateContainerRequest, UpdateContainerRequest};
use nri_spec::resources_to_nri;
use serde_json::Value;

use crate::error::Error;
use crate::nri::{Nri, Shared};

impl Nri {
    /// Calls the plugins for an update of a container. `requested` is `linux.resources` of an OCI
    /// config with the fields to change. Returns the resources to update the container with: those
    /// that are requested, and those that plugins set. Fields that NRI does not have stay.
    ///
    /// # Errors
    /// The container is unknown, a field has a wrong type, a plugin refuses, plugins contradict one
    /// another, or an update of another container fails.
    pub async fn update_container(&self, id: &str, requested: &Value) -> Result<Value, Error> {
        let (pod, container) = self.shared.records.container(id)?;
        let resources = resources_to_nri(requested);
        let resources =
            resources.map_err(|source| Error::WrongType { container: id.to_owned(), source })?;
        let request = UpdateContainerRequest {
            pod: Some(pod).into(),
            container: Some(container).into(),
            linux_resources: Some(resources).into(),
            ..Default::default()
        };
        let commit = async |outcome| self.shared.commit_update(id, requested, outcome).await;
        self.adaptation.update_container(request, &RequestContext::default(), commit).await?
    }

    /// Notifies the plugins that the runtime has updated a container.
    ///
    /// # Errors
    /// The container is unknown.
    pub fn post_update_container(&self, id: &str) -> Result<(), Error> {
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = PostUpdateContainerRequest { pod, container, ..Default::default() };
        // The delivery is not awaited.
        self.adaptation.post_update_container(request);
        Ok(())
    }
}

impl Shared {
    async fn commit_update(
        &self,
        id: &str,
        requested: &Value,
        outcome: UpdateOutcome,
    ) -> Result<Value, Error> {
        let resources = self.to_oci(id, requested.clone(), &outcome.resources)?;
        self.perform_of_event(&outcome.updates, &outcome.evictions).await?;
        self.records.overlay(id, &outcome.resources)?;
        Ok(resources)
    }
}
