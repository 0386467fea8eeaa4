//! The part of an `update` after the runtime's call: completes the update if the runtime has made
//! it, and undoes it if the runtime has refused it. If the wrapper was killed, finds out first what
//! the runtime has done.

use crate::{
    error::Error,
    lifecycle::update::{reconcile_update, set_pod_resources},
    resources::changes::resource_changes,
    service::Service,
    state::record::Record,
    verb::update::prepare::Update,
};
use nri_api::proto::FieldOwners;
use nri_control::AuditEvent;
use nri_merge::Ignored;
use serde_json::Value;

impl Service {
    /// Completes an update that the runtime has made: enforces it, records it, and notifies
    /// plugins.
    ///
    /// # Errors
    /// The resources set by plugins cannot be made effective. The previous resources are then set
    /// again.
    pub(super) async fn finish_update(&self, update: Update) -> Result<(), Error> {
        let Update { container, pending, base, ignored, .. } = &update;
        let notify = pending.notify;
        let (requested, owners) = (pending.requested.clone(), pending.owners.clone());
        let record =
            Record { requested: requested.into(), owners, ..Record::clone(&container.record()) };
        let before = record.effective.clone();
        let mut enforced =
            self.resource_manager.enforce_strictly(&record, &pending.effective.resources);
        if let (Ok(()), Some((_, group))) = (&enforced, &pending.effective.rdt_class) {
            enforced = self.resource_manager.move_to_rdt_group(&record, group);
        }
        if let Err(error) = enforced {
            let record = self.registry.change(container, |r| r.pending_update = None);
            self.resource_manager.undo(&record, &pending.effective).await;
            return Err(error.into());
        }
        let record = self.registry.change(container, |r| r.complete(pending.clone()));
        tracing::debug!(container = record.key.id, pod = record.pod_id, "container updated");
        self.audit_update(&record, &before, base, ignored);
        if notify {
            self.on_updated(container);
        } else {
            set_pod_resources(&self.registry, &record);
        }
        Ok(())
    }

    /// Writes the update to the audit log: first what the engine requested, then what plugins
    /// changed of that.
    fn audit_update(&self, record: &Record, before: &Value, base: &Value, ignored: &[Ignored]) {
        if !self.audit().is_enabled() {
            return;
        }
        let line = self.audit_line(record, AuditEvent::Update);
        let by_engine = resource_changes(before, base, &FieldOwners::default());
        self.audit_changes(&line, "update", by_engine);
        self.audit_changes(
            &line,
            "update",
            resource_changes(base, &record.effective, &record.owners),
        );
        self.audit_ignored(&line, "update", ignored);
    }

    /// Undoes an update that the runtime has refused.
    pub(super) async fn cancel_update(&self, update: &Update) {
        self.registry.change(&update.container, |r| r.pending_update = None);
        self.undo_update(update).await;
    }

    /// Completes or undoes an update that no wrapper reported: the control groups show whether the
    /// runtime has made it.
    pub(super) async fn resolve_update(&self, update: &Update) {
        let leftover = reconcile_update(&self.registry, self.audit(), &update.container);
        if *update.container.record().effective != update.pending.effective.resources {
            return self.undo_update(update).await;
        }
        self.resource_manager.enforce_reconciled(&update.container, &leftover);
        if update.pending.notify {
            self.on_updated(&update.container);
        }
    }

    /// Restores the effective resources, because crun does not revert the files that it wrote
    /// before it failed. Does nothing for a container without resources of plugins, since the
    /// result must then be the same as without `nrid`.
    async fn undo_update(&self, update: &Update) {
        if update.substitute.arguments.is_some() {
            let (record, tried) = (update.container.record(), &update.pending.effective);
            self.resource_manager.undo(&record, tried).await;
        }
    }
}
