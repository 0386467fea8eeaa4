//! Reconciliation of a container with its runtime, after a creation or a `run` without a
//! reported end.

use crate::{
    lifecycle::transition::IfNotEffective,
    service::Service,
    state::{container::Container, status::ContainerStatus},
};
use std::sync::Arc;

impl Service {
    /// Performs the transitions that the runtime has made and that were not reported. The caller
    /// holds the container lock.
    pub async fn reconcile(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        // `exists` also marks the container for the search for vanished ones. That search is what
        // finds its end if the runtime was killed before it wrote a state.
        if !container.exists() {
            return self.removed(container).await;
        }
        // `run` was detached, or keeps the container: hooks may have reported less than happened.
        let Ok(state) = record.runtime.state(&record.key.id).await else { return };
        let was = record.status;
        if was == ContainerStatus::Creating {
            let pid = (state.pid > 0).then_some(state.pid);
            // Its creator has gone, so a refusal must wait for the start. It cannot fail here.
            let _ = self.created(container, pid, IfNotEffective::RetryAtStart).await;
        }
        if state.status == "created" {
            // The start is still to come, and is reported.
            return;
        }
        if was == ContainerStatus::Creating
            && let Err(error) = self.starting(container).await
        {
            tracing::warn!(%error, container = record.key.id, "the container has started already");
        }
        if was < ContainerStatus::Running {
            self.running(container);
        }
        if state.status == "stopped" || container.record().process_has_ended() {
            self.stopped(container).await;
        }
    }
}
