//! The end of an update of a container's resources: notifies plugins, and waits for wrappers of the
//! previous `nrid`.

use crate::{
    lifecycle::request::{container_request, pod_request},
    resources::update::ReconciledUpdate,
    service::Service,
    state::container::{Container, UpdateLock},
};
use std::sync::Arc;

impl Service {
    /// Ends the pending update of a container: finds out whether the runtime has made it, enforces
    /// the resources that result, and notifies plugins if it was made. Returns whether it was.
    pub fn on_update_ended(&self, lock: &UpdateLock) -> bool {
        let reconciled = ReconciledUpdate::of(lock, &self.registry, &self.audit);
        self.resource_manager.enforce_reconciled(lock, reconciled.as_ref());
        let made = reconciled.filter(|reconciled| reconciled.was_made);
        if made.as_ref().is_some_and(|made| made.update.pending.notify) {
            self.on_updated(lock);
        }
        made.is_some()
    }

    /// Notifies plugins of the effective resources after an update.
    pub fn on_updated(&self, container: &Container) {
        let (pod, message) = self.registry.messages(container);
        // Notifications are sent in the order of these calls. The delivery is not awaited.
        if container.is_sandbox() {
            let request = pod_request!(PostUpdatePodSandboxRequest, pod);
            self.plugins.adaptation.post_update_pod_sandbox(request);
        } else {
            let request = container_request!(PostUpdateContainerRequest, pod, message);
            self.plugins.adaptation.post_update_container(request);
        }
    }

    /// Waits for the wrapper that was updating the container when the previous `nrid` ended, and
    /// then reconciles the container.
    pub fn follow_update(self: &Arc<Self>, container: &Arc<Container>) {
        let Some(caller) =
            container.record().pending_update.as_ref().and_then(|update| update.caller)
        else {
            return;
        };
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            // The engine's next verb waits for this lock. Updates by plugins wait until the record
            // has no pending update.
            let _lock = service.verbs.locks.container(container.key()).await;
            tokio::select! {
                () = service.wait_for_end(caller) => {}
                // The same wrapper has requested the update again, and waits for the container
                // lock, which this task holds.
                () = container.update_retried() => {}
            }
            let update_lock = container.lock_update().await;
            if container.record().pending_update.is_some() {
                // Also notifies plugins: a plugin that was synchronized meanwhile received the old
                // resources.
                service.on_update_ended(&update_lock);
            }
        });
    }
}
