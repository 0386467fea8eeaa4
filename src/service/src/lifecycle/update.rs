//! The end of an update of a container's resources: changes the record and notifies plugins. If no
//! wrapper reported the result of the update, the control groups show whether it was made.

use crate::{
    audit::{Audit, line_of},
    cgroup::files,
    lifecycle::request::container_request,
    resources::{changes::resource_changes, manager::ResourceManager, updatable::runtime_part},
    service::Service,
    state::{container::Container, record::Record, registry::Registry},
};
use nri_api::proto;
use nri_cgroup::plan;
use nri_control::AuditEvent;
use nri_spec::changed;
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

/// Work that remains after [`reconcile_update`].
#[derive(Debug, Default)]
pub struct Leftover {
    /// Whether plugins are to be notified, because the update was made.
    pub notify: bool,
    /// RDT group into which the threads are to be moved, because the update was made.
    rdt_group: Option<String>,
    /// Fields that may be partly written, because `nrid` itself was making the update and did not
    /// complete it.
    tried: Value,
}

/// Completes the pending update in the record if it was made, otherwise removes it. The update was
/// made if the control groups hold the fields that the runtime sets. Other fields do not count,
/// because `nrid` writes them after the runtime. The caller holds the update lock, or is the only
/// task that has access to the container.
pub fn reconcile_update(registry: &Registry, audit: &Audit, container: &Container) -> Leftover {
    let record = container.record();
    let Some(update) = record.pending_update.clone() else { return Leftover::default() };
    let [before, after] = [&*record.effective, &update.effective.resources];
    let by_runtime = changed(&runtime_part(before), &runtime_part(after));
    let has_no_runtime_part = by_runtime.as_object().is_none_or(serde_json::Map::is_empty);
    let was_made = match (has_no_runtime_part, update.caller) {
        // An update by a wrapper in which the runtime has nothing to change cannot have failed.
        (true, Some(_)) => true,
        (true, None) => is_effective(&record, after, &changed(before, after)),
        (false, _) => is_effective(&record, after, &by_runtime),
    };
    let (id, pod) = (&record.key.id, &record.pod_id);
    tracing::info!(container = id, pod, made = was_made, "pending update reconciled");
    let rdt_group = update.effective.rdt_class.clone().map(|(_, group)| group).filter(|_| was_made);
    let is_by_nrid = update.caller.is_none();
    let tried = if is_by_nrid && !was_made { changed(before, after) } else { Value::Null };
    let notify = was_made && update.notify;
    let end = |r: &mut Record| if was_made { r.complete(update) } else { r.pending_update = None };
    let after = registry.change(container, end);
    if was_made && audit.is_enabled() {
        let line = line_of(&after, &registry.pods, AuditEvent::Update);
        let changes = resource_changes(&record.effective, &after.effective, &after.owners);
        audit.write_changes(&line, if is_by_nrid { "plugin" } else { "update" }, changes);
    }
    Leftover { notify, rdt_group, tried }
}

/// Whether the control groups hold the values of `resources`, for the fields of `part`. True if
/// these fields have no control file.
fn is_effective(record: &Record, resources: &Value, part: &Value) -> bool {
    let Some(dirs) = record.cgroup() else { return true };
    // Plan from all resources, because the content of a file may depend on several fields.
    let fields: HashSet<String> = plan(part, &dirs).writes.into_iter().map(|s| s.field).collect();
    let mut plan = plan(resources, &dirs).writes;
    plan.retain(|s| fields.contains(&s.field));
    files::compare(&plan).is_empty()
}

/// Records the resources of a sandbox container as those of its pod.
pub fn set_pod_resources(registry: &Registry, record: &Record) {
    if record.sandbox {
        let resources = record.container.get().linux.unwrap_or_default().resources;
        registry.pods.change(&record.pod_id, |pod| {
            pod.sandbox.change(|pod| pod.linux.mut_or_insert_default().resources = resources)
        });
    }
}

impl ResourceManager {
    /// Enforces the effective resources after [`reconcile_update`].
    pub fn enforce_reconciled(&self, container: &Container, leftover: &Leftover) {
        let record = container.record();
        if record.process_has_ended() {
            return;
        }
        self.enforce_with(&record, &record.effective, &leftover.tried);
        let moved = leftover
            .rdt_group
            .as_ref()
            .map_or(Ok(()), |group| self.move_to_rdt_group(&record, group));
        if let Err(error) = moved {
            let (container, pod) = (&record.key.id, &record.pod_id);
            tracing::error!(container, pod, %error, "RDT class not effective");
        }
    }
}

impl Service {
    /// Reconciles the container after its pending update, and notifies plugins if the update was
    /// made.
    pub fn on_update_ended(&self, container: &Container) {
        let leftover = reconcile_update(&self.registry, self.audit(), container);
        self.resource_manager.enforce_reconciled(container, &leftover);
        if leftover.notify {
            self.on_updated(container);
        }
    }

    /// Notifies plugins of the effective resources after an update. If the container is a sandbox,
    /// also records these resources as those of the pod.
    pub fn on_updated(&self, container: &Container) {
        let record = container.record();
        set_pod_resources(&self.registry, &record);
        let (pod, message) = self.registry.messages(container);
        // Notifications are sent in the order of these calls. The delivery is not awaited.
        if record.sandbox {
            let request =
                proto::PostUpdatePodSandboxRequest { pod: Some(pod).into(), ..Default::default() };
            drop(self.adaptation.post_update_pod_sandbox(request));
        } else {
            drop(self.adaptation.post_update_container(container_request!(
                PostUpdateContainerRequest,
                pod,
                message
            )));
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
            let _lock = service.locks.container(container.key()).await;
            tokio::select! {
                () = service.wait_for_end(caller) => {}
                // The same wrapper has requested the update again, and waits for the container
                // lock, which this task holds.
                () = container.update_retried() => {}
            }
            let _update_lock = container.update_lock.lock().await;
            if container.record().pending_update.is_some() {
                // Also notifies plugins: a plugin that was synchronized meanwhile received the old
                // resources.
                service.on_update_ended(&container);
            }
        });
    }
}
