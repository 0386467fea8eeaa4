//! Events in the life of a pod.

use nri_adaptation::RequestContext;
use nri_api::proto::{
    LinuxResources, PodSandbox, PostUpdatePodSandboxRequest, RemovePodSandboxRequest,
    RunPodSandboxRequest, StopPodSandboxRequest, UpdatePodSandboxRequest,
};

use crate::error::Error;
use crate::nri::Nri;

impl Nri {
    /// Calls the plugins for a new pod. A runtime without pods makes one for each container, with
    /// the id and name of the container.
    ///
    /// # Errors
    /// The pod exists or has no id, or a plugin refuses. The pod is then unknown, and the plugins
    /// that received the event have received its stop and removal.
    pub async fn run_pod_sandbox(&self, pod: PodSandbox) -> Result<(), Error> {
        self.shared.records.check_new_pod(&pod.id)?;
        let context = RequestContext::default();
        let request = RunPodSandboxRequest { pod: Some(pod.clone()).into(), ..Default::default() };
        let commit = async || self.shared.records.add_pod(pod.clone());
        let run = self.adaptation.run_pod_sandbox(request, &context, commit).await;
        if run.is_err() {
            self.adaptation.roll_back_pod(&context, pod).await;
        }
        Ok(run?)
    }

    /// Calls the plugins before the resources of a pod change.
    ///
    /// # Errors
    /// The pod is unknown, or a plugin refuses.
    pub async fn update_pod_sandbox(
        &self,
        id: &str,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Result<(), Error> {
        let request = UpdatePodSandboxRequest {
            pod: Some(self.shared.records.pod(id)?).into(),
            overhead_linux_resources: Some(overhead.clone()).into(),
            linux_resources: Some(resources.clone()).into(),
            ..Default::default()
        };
        let commit = async || {
            self.shared.records.change_pod(id, |pod| {
                let linux = pod.linux.mut_or_insert_default();
                linux.pod_overhead = Some(overhead).into();
                linux.pod_resources = Some(resources).into();
            })
        };
        self.adaptation.update_pod_sandbox(request, &RequestContext::default(), commit).await?
    }

    /// Notifies the plugins that the resources of a pod have changed.
    ///
    /// # Errors
    /// The pod is unknown.
    pub fn post_update_pod_sandbox(&self, id: &str) -> Result<(), Error> {
        let pod = Some(self.shared.records.pod(id)?).into();
        let request = PostUpdatePodSandboxRequest { pod, ..Default::default() };
        // The delivery is not awaited.
        self.adaptation.post_update_pod_sandbox(request);
        Ok(())
    }

    /// Notifies the plugins that a pod has stopped.
    ///
    /// # Errors
    /// The pod is unknown.
    pub async fn stop_pod_sandbox(&self, id: &str) -> Result<(), Error> {
        let pod = Some(self.shared.records.pod(id)?).into();
        let request = StopPodSandboxRequest { pod, ..Default::default() };
        self.adaptation.stop_pod_sandbox(request, async || ()).await;
        Ok(())
    }

    /// Notifies the plugins that a pod was removed, and forgets it.
    ///
    /// # Errors
    /// The pod is unknown.
    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<(), Error> {
        let pod = Some(self.shared.records.pod(id)?).into();
        let request = RemovePodSandboxRequest { pod, ..Default::default() };
        let commit = async || self.shared.records.remove_pod(id);
        self.adaptation.remove_pod_sandbox(request, commit).await;
        Ok(())
    }
}
