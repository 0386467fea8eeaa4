//! Rollback of a refused creation, or of a refused start of a pod: the plugins that received the
//! request get a stop and a removal, so that they can free the resources that they allocated.

use nri_api::proto::*;

use crate::adaptation::Adaptation;
use crate::events::update::StopOutcome;
use crate::order::context::RequestContext;

impl Adaptation {
    /// Rolls back the creation of a container: the plugins that received the creation get
    /// `StopContainer` and `RemoveContainer`. `commit` is called as in
    /// [`Adaptation::stop_container`].
    pub async fn roll_back_creation(
        &self,
        context: &RequestContext,
        pod: PodSandbox,
        container: Container,
        commit: impl AsyncFnOnce(StopOutcome),
    ) {
        let pipeline = &self.core.pipeline;
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let stop = StopContainerRequest { pod, container, ..Default::default() };
        let (pod, container) = (stop.pod.clone(), stop.container.clone());
        let tickets = pipeline.enter_for_reached(Event::STOP_CONTAINER, context);
        self.stop_with(tickets, stop, Some(context), commit).await;
        let remove = RemoveContainerRequest { pod, container, ..Default::default() };
        let tickets = pipeline.enter_for_reached(Event::REMOVE_CONTAINER, context);
        self.notify_with(tickets, remove, async || ()).await;
    }

    /// Rolls back the start of a pod: the plugins that received `RunPodSandbox` get
    /// `StopPodSandbox` and `RemovePodSandbox`.
    pub async fn roll_back_pod(&self, context: &RequestContext, pod: PodSandbox) {
        let pipeline = &self.core.pipeline;
        let stop = StopPodSandboxRequest { pod: Some(pod.clone()).into(), ..Default::default() };
        let tickets = pipeline.enter_for_reached(Event::STOP_POD_SANDBOX, context);
        self.notify_with(tickets, stop, async || ()).await;
        let remove = RemovePodSandboxRequest { pod: Some(pod).into(), ..Default::default() };
        let tickets = pipeline.enter_for_reached(Event::REMOVE_POD_SANDBOX, context);
        self.notify_with(tickets, remove, async || ()).await;
    }
}
