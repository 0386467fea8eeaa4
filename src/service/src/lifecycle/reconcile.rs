//! Reconciliation of a container with its runtime, after a creation or a `run` that was not
//! reported.

use crate::{
    lifecycle::transition::IfNotEffective,
    service::Service,
    state::{container::Container, status::ContainerStatus},
};
use std::sync::Arc;

impl Service {
    /// Performs the transitions that the runtime's `state` shows and that were not reported. The
    /// caller holds the container lock.
    pub async fn reconcile(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        // `exists` also marks the container as present, which the search for vanished containers
        // needs. If the runtime was killed before it wrote a state, only that search finds the end.
        if !container.exists() {
            return self.removed(container).await;
        }
        // `run` was detached, or keeps the container: hooks may have missed transitions.
        let Ok(state) = record.runtime.state(&record.key.id).await else { return };
        let was = record.status;
        if was == ContainerStatus::Creating {
            let pid = (state.pid > 0).then_some(state.pid);
            // The creating process has exited, so a failure can be reported at the start only.
            // `RetryAtStart` never returns an error.
            let _ = self.confirm_created(container, pid, IfNotEffective::RetryAtStart);
            // Decided by `was`: a snapshot may have recorded the process meanwhile, without the
            // container lock, and neither the watch nor the event may be lost to it.
            self.announce_created(container, pid);
        }
        if state.status == "created" {
            // The container is not started yet; its start will be reported.
            return;
        }
        if was == ContainerStatus::Creating
            && let Err(error) = self.starting(container).await
        {
            let container = &record.key.id;
            tracing::warn!(container, %error, "start refused, but the container runs already");
        }
        if was < ContainerStatus::Running {
            self.running(container);
        }
        if state.status == "stopped" || container.record().process_has_ended() {
            self.stopped(container).await;
        }
    }
}
