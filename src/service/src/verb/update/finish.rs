//! The part of an `update` after the runtime's call: completes the update if the runtime has made
//! it, and undoes it if the runtime has refused it. If the wrapper was killed, finds out first what
//! the runtime has done.

use crate::{
    error::Error, resources::update::ResourceUpdate, service::Service,
    verb::update::prepare::Update,
};
use nri_files::AuditEvent;

impl Service {
    /// Completes an update that the runtime has made: enforces it, records it, and notifies
    /// plugins.
    ///
    /// # Errors
    /// The resources set by plugins cannot be made effective. The previous resources are then set
    /// again.
    pub(super) async fn finish_update(&self, update: &Update) -> Result<(), Error> {
        let Update { resources, ignored, lock, .. } = update;
        if let Err(error) = resources.make_effective(lock, &self.resource_manager) {
            resources.undo(lock, &self.resource_manager, false).await;
            return Err(error.into());
        }
        let record = resources.complete(lock, &self.registry, &self.audit);
        tracing::debug!(container = record.key.id, pod = record.pod_id, "container updated");
        if !ignored.is_empty() && self.audit.is_enabled() {
            self.audit_ignored(&self.audit_line(&record, AuditEvent::Update), "update", ignored);
        }
        if resources.pending.notify {
            self.on_updated(lock);
        }
        Ok(())
    }

    /// Undoes an update that the runtime has refused: crun does not revert the files that it wrote
    /// before it failed. The result for a container without resources of plugins must be the same
    /// as without `nrid`.
    pub(super) async fn cancel_update(&self, update: &Update) {
        let Update { resources, lock, .. } = update;
        match update.substitute.arguments {
            Some(_) => resources.undo(lock, &self.resource_manager, false).await,
            None => ResourceUpdate::withdraw(lock, &self.registry),
        }
    }

    /// Completes or undoes an update that no wrapper reported: the control groups show whether the
    /// runtime has made it.
    pub(super) async fn resolve_update(&self, update: &Update) {
        if !self.on_update_ended(&update.lock) {
            self.cancel_update(update).await;
        }
    }
}
