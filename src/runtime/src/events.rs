//! Events in the life of a container that exists.

use nri_adaptation::RequestContext;
use nri_api::proto::{
    ContainerState, PostCreateContainerRequest, PostStartContainerRequest, RemoveContainerRequest,
    StartContainerRequest, StopContainerRequest,
};

use crate::error::Error;
use crate::nri::Nri;

impl Nri {
    /// Notifies the plugins that the runtime has created a container.
    ///
    /// # Errors
    /// The container is unknown.
    pub fn post_create_container(&self, id: &str) -> Result<(), Error> {
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = PostCreateContainerRequest { pod, container, ..Default::default() };
        // The delivery is not awaited.
        self.adaptation.post_create_container(request);
        Ok(())
    }

    /// Calls the plugins before the runtime starts a container.
    ///
    /// # Errors
    /// The container is unknown, or a plugin refuses. The caller then stops and removes the
    /// container.
    pub async fn start_container(&self, id: &str) -> Result<(), Error> {
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = StartContainerRequest { pod, container, ..Default::default() };
        let context = RequestContext::default();
        Ok(self.adaptation.start_container(request, &context, async || ()).await?)
    }

    /// Notifies the plugins that a container runs.
    ///
    /// # Errors
    /// The container is unknown.
    pub fn post_start_container(&self, id: &str) -> Result<(), Error> {
        self.shared.records.set_state(id, ContainerState::CONTAINER_RUNNING)?;
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = PostStartContainerRequest { pod, container, ..Default::default() };
        // The delivery is not awaited.
        self.adaptation.post_start_container(request);
        Ok(())
    }

    /// Notifies the plugins that a container has stopped, and performs the updates of other
    /// containers that they request. Failures of plugins and updates are logged.
    ///
    /// # Errors
    /// The container is unknown.
    pub async fn stop_container(&self, id: &str) -> Result<(), Error> {
        self.shared.records.set_state(id, ContainerState::CONTAINER_STOPPED)?;
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = StopContainerRequest { pod, container, ..Default::default() };
        let commit = async |stop: nri_adaptation::StopOutcome| {
            self.shared.perform_of_stop(stop.updates).await;
        };
        self.adaptation.stop_container(request, commit).await;
        Ok(())
    }

    /// Notifies the plugins that a container was removed, and forgets it.
    ///
    /// # Errors
    /// The container is unknown.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let (pod, container) = self.shared.records.container(id)?;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let request = RemoveContainerRequest { pod, container, ..Default::default() };
        let commit = async || self.shared.records.remove_container(id);
        self.adaptation.remove_container(request, commit).await;
        Ok(())
    }
}
