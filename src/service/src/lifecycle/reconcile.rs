//! Reconciliation of a container with its runtime, after a creation or a `run` whose result was not
//! reported.

use crate::{
    host::runtime::State,
    resources::enforce::IfNotEffective,
    service::Service,
    state::{locked::LockedContainer, status::ContainerStatus},
};
use std::sync::Arc;

impl Service {
    /// Performs the transitions that the runtime's `state` shows and that were not reported.
    pub async fn reconcile(self: &Arc<Self>, container: &LockedContainer) {
        let record = container.record();
        // `exists` also marks the container as present, which the search for vanished containers
        // needs. If the runtime was killed before it wrote a state, only that search detects the
        // end of the container.
        if !container.exists().await {
            return self.on_removed(container).await;
        }
        // The container outlives its `run` (`--detach`, `--keep`): hooks may have missed
        // transitions.
        let Ok(state) = record.runtime.state(&record.key.id).await else { return };
        self.apply_state(container, &state).await;
    }

    /// Performs the transitions to this state that were not reported.
    pub async fn apply_state(self: &Arc<Self>, container: &LockedContainer, state: &State) {
        let record = container.record();
        let old_status = record.status;
        if old_status == ContainerStatus::Creating {
            let pid = (state.pid > 0).then_some(state.pid);
            // The creating process has exited, so only a later `start` can report a failure.
            // `RetryAtStart` never returns an error.
            let _ = self.confirm_created(container, pid, IfNotEffective::RetryAtStart);
            // Decided by `old_status`: a snapshot, which does not take the container lock, may have
            // changed the recorded status meanwhile, and the watch and the event are still needed.
            self.announce_created(container, pid).await;
        }
        if state.status == "created" {
            // The container is not started yet; its start will be reported.
            return;
        }
        // Does nothing if plugins have agreed to the start already.
        if old_status < ContainerStatus::Running
            && let Err(error) = self.request_start(container).await
        {
            let (container, pod) = (&record.key.id, &record.pod_id);
            tracing::warn!(container, pod, %error, "start refused, but the container runs already");
        }
        if old_status < ContainerStatus::Running {
            self.on_running(container);
        }
        if state.status == "stopped" || container.record().process_has_ended() {
            self.on_stopped(container).await;
        }
    }
}
