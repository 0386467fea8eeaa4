//! Updates of a container's resources, by the engine and by plugins. A [`ResourceUpdate`] is
//! planned from a request, and is in the record while it is made. Then it is completed or undone.
//! If its result is not reported, it is reconciled, maybe by the next `nrid`.
//!
//! The fields pass to the plugins that set them (`owners.rs`), and the limit of swap follows that
//! of memory where it has to (`nri_spec::LimitChange`). Runtime and host are asked whether they can
//! do it (`capabilities.rs`) before the update is recorded; then the runtime's `update` makes it,
//! and enforcement (`enforce.rs`) what no runtime's `update` can. In an update by the engine, its
//! wrapper calls the runtime: `verb/update/prepare.rs` begins the update, `verb/update/finish.rs`
//! ends it.

use crate::{
    audit::{Audit, line_of},
    cgroup::files,
    error::ResourceError,
    host::{classes::ClassError, process::ProcessIdentity, runtime::RuntimeError},
    resources::{
        changes::resource_changes,
        enforce::{files_without_value, restore_files, write_fields, writes_of},
        idle::{IdleUpdate, end_idle, set_idle},
        manager::ResourceManager,
        owners,
        runtime_update::update_by_runtime,
        updatable::{runtime_part, with_request},
    },
    state::{
        container::{Container, UpdateLock},
        record::{ControlFile, EffectiveResources, PendingUpdate, Record},
        registry::Registry,
        status::ContainerStatus,
        store::StoreError,
    },
};
use nri_api::proto::{FieldOwners, LinuxResources};
use nri_config::Enforce;
use nri_files::{AuditEvent, AuditLine};
use nri_spec::{LimitChange, MemoryLimits, changed, overlay};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// Time that an update waits for another update of the same container; equals the timeout of a
/// call of the runtime.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for which `nrid` refuses updates of a container by plugins, after a call of its runtime did
/// not end. Each such call delays the event that the plugin replied to, and the plugin may request
/// the same update with every event.
pub const HUNG_INTERVAL: Duration = Duration::from_secs(60);

/// Interval at which `nrid` checks whether an update that a previous `nrid` started has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A request for other resources of a container.
#[derive(Debug, Clone, Copy)]
pub struct ResourceRequest<'a> {
    /// Fields of the engine's update; null in an update by plugins.
    pub by_engine: &'a Value,
    /// What plugins set, in replies to the engine's update or on their own. May have fields of the
    /// engine's, too.
    pub merged: &'a LinuxResources,
    /// The plugins, by the fields that they set.
    pub owners: &'a FieldOwners,
    /// The wrapper that runs the runtime's `update`; `None` if `nrid` does.
    pub caller: Option<ProcessIdentity>,
    /// Whether plugins are to be notified when the update has been made.
    pub notify: bool,
    /// The creation of which the update is a part, by the name for hooks.
    pub creation: Option<&'a str>,
}

/// An update of the resources of a container. Whoever makes it has the [`UpdateLock`].
#[derive(Debug)]
pub struct ResourceUpdate {
    /// The record's fields after the update.
    pub pending: PendingUpdate,
    before: Arc<Record>,
    /// The resources before, with the engine's request, but not those of plugins.
    base: Value,
    /// Control files of fields that had no value, with their content before.
    files: Vec<ControlFile>,
    /// What the update is, if no engine and no plugin has requested it.
    message: String,
}

impl ResourceUpdate {
    /// Plans an update: later requests for a field win, and plugins those of the engine.
    ///
    /// # Errors
    /// A class cannot be resolved.
    pub async fn plan(
        manager: &ResourceManager,
        container: &Container,
        request: ResourceRequest<'_>,
    ) -> Result<Self, ClassError> {
        let ResourceRequest { by_engine, merged, caller, notify, .. } = request;
        let before = container.record();
        let base = with_request(&before, by_engine);
        let mut effective = manager.overlay(&base, merged, request.owners).await?;
        let mut requested = Value::clone(&before.requested);
        overlay(&mut requested, by_engine);
        let mut owners = before.owners.clone();
        owners::release(&mut owners, by_engine);
        owners::merge(&mut owners, request.owners);
        owners::undo_partition(&mut effective.resources, &before.effective, &owners);
        let mut derived = before.derived.clone();
        let limits = LimitChange {
            before: MemoryLimits::of_oci(&before.effective),
            by_engine: MemoryLimits::of_oci(by_engine),
            by_plugins: MemoryLimits::of_plugins(merged, request.owners),
            is_creation: false,
            is_adjusted: before.has_plugin_resources() || *request.owners != FieldOwners::new(),
        };
        let swap = limits.derived_swap(|| manager.has_swap_accounting());
        if let Some(swap) = swap {
            overlay(&mut effective.resources, &json!({"memory": {"swap": swap}}));
        }
        let still_follows = !derived.is_empty() && !limits.gives_swap();
        derived.set_swap(swap.is_some() || still_follows, &mut owners);
        let gives_limit = limits.by_engine.limit.or(limits.by_plugins.limit).is_some();
        let sets_swap = swap.is_some() || still_follows && gives_limit;
        // The runtime of an engine's update is called by its wrapper.
        let files = match caller {
            Some(_) => Vec::new(),
            None => files_without_value(&before, &effective.resources),
        };
        let replaced = manager.replaced(&before, &request, (&effective, sets_swap), &files).await;
        let pending =
            PendingUpdate { requested, effective, owners, derived, replaced, caller, notify };
        Ok(Self { pending, before, base, files, message: String::new() })
    }

    /// Returns an update that no engine has requested.
    pub(super) fn of(
        before: Arc<Record>,
        pending: PendingUpdate,
        files: Vec<ControlFile>,
        message: String,
    ) -> Self {
        let base = Value::clone(&before.effective);
        Self { pending, before, base, files, message }
    }

    /// Returns the update that is in the record of a container.
    fn of_record(container: &Container) -> Option<Self> {
        let before = container.record();
        let pending = before.pending_update.clone()?;
        let base = with_request(&before, &changed(&before.requested, &pending.requested));
        Some(Self { pending, before, base, files: Vec::new(), message: String::new() })
    }

    /// Checks that the runtime and this host can set what plugins set. `owners` is for errors.
    ///
    /// # Errors
    /// The fields that they cannot set.
    pub async fn check(
        &self,
        manager: &ResourceManager,
        owners: &FieldOwners,
    ) -> Result<(), ResourceError> {
        let wanted = &self.pending.effective;
        let (before, after) = (runtime_part(&self.base), runtime_part(&wanted.resources));
        manager.check_resources(&self.before.runtime, &before, &after, owners).await?;
        manager.check_cgroup_files(&self.before, &self.base, wanted, owners)
    }

    /// Saves the update in the record, so that the next `nrid` can reconcile it.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin(&self, lock: &UpdateLock, registry: &Registry) -> Result<(), StoreError> {
        let pending = self.pending.clone();
        registry.try_change(lock, |r| r.pending_update = Some(pending)).map(drop)
    }

    /// Returns what the runtime gets in place of `unified["cpu.idle"]`: see `idle.rs`.
    pub fn idle(&self, manager: &ResourceManager) -> Option<IdleUpdate> {
        let PendingUpdate { effective, owners, .. } = &self.pending;
        let Record { runtime, effective: before, .. } = &*self.before;
        manager.idle_in_update(runtime, before, &effective.resources, owners)
    }

    /// Makes the update: by the runtime's `update`, and what that does not set.
    ///
    /// # Errors
    /// The runtime refuses it, or a value of a plugin is not effective.
    pub async fn perform(
        &self,
        lock: &UpdateLock,
        manager: &ResourceManager,
    ) -> Result<(), ResourceError> {
        let wanted = &self.pending.effective.resources;
        update_by_runtime(&self.before, wanted, self.idle(manager)).await?;
        self.make_effective(lock, manager)
    }

    /// Sets what the runtime's `update` has not set, in control groups and by resctrl.
    ///
    /// # Errors
    /// A value of a plugin is not effective.
    pub fn make_effective(
        &self,
        lock: &UpdateLock,
        manager: &ResourceManager,
    ) -> Result<(), ResourceError> {
        let PendingUpdate { requested, effective, owners, .. } = &self.pending;
        let record = Record {
            requested: requested.clone().into(),
            owners: owners.clone(),
            ..Record::clone(&lock.record())
        };
        manager.enforce_strictly(&record, &effective.resources)?;
        match &effective.rdt_class {
            Some((_, group)) => manager.move_to_rdt_group(&record, group),
            None => Ok(()),
        }
    }

    /// Records that the update has been made, also as the resources of the pod if the container is
    /// its sandbox. Writes it to the audit log: first what the engine requested, then what plugins
    /// changed of that. Returns the record.
    pub fn complete(&self, lock: &UpdateLock, registry: &Registry, audit: &Audit) -> Arc<Record> {
        let record = registry.change(lock, |r| r.complete(self.pending.clone()));
        if record.sandbox {
            let resources = record.container.get().linux.unwrap_or_default().resources;
            registry.pods.change(&record.pod_id, |pod| {
                pod.sandbox.change(|pod| pod.linux.mut_or_insert_default().resources = resources)
            });
        }
        if audit.is_enabled() {
            let line = line_of(&record, &registry.pods, AuditEvent::Update);
            let line = AuditLine { message: self.message.clone(), ..line };
            let request = if self.pending.caller.is_some() { "update" } else { "plugin" };
            let none = FieldOwners::default();
            let by_engine = resource_changes(&self.before.effective, &self.base, &none);
            audit.write_changes(&line, request, by_engine);
            let by_plugins = resource_changes(&self.base, &record.effective, &record.owners);
            audit.write_changes(&line, request, by_plugins);
        }
        record
    }

    /// Removes the update from the record.
    pub fn withdraw(lock: &UpdateLock, registry: &Registry) {
        registry.change(lock, |r| r.pending_update = None);
    }

    /// Restores the resources after an update that failed, which may have set some fields, and
    /// removes it from the record. A runtime that hangs is not called again.
    pub async fn undo(&self, lock: &UpdateLock, manager: &ResourceManager, runtime_hangs: bool) {
        let (record, others) = (lock.record(), &self.pending.effective.resources);
        self.restore(lock, manager, (&record, others), runtime_hangs).await;
        Self::withdraw(lock, &manager.registry);
    }

    /// Makes an update that puts back what another one has replaced. What cannot be put back is
    /// logged. The record has it nevertheless, so that `verify` shows the difference. A runtime
    /// that hangs is not called again.
    pub(super) async fn put_back(
        &self,
        lock: &UpdateLock,
        manager: &ResourceManager,
        runtime_hangs: bool,
    ) {
        let mut record = Record::clone(&self.before);
        record.complete(self.pending.clone());
        let (container, pod, why) = (&record.key.id, &record.pod_id, &self.message);
        if let Err(error) = self.begin(lock, &manager.registry) {
            tracing::error!(container, pod, %error, why, "update not recorded");
        }
        if record.status != ContainerStatus::Stopped {
            self.restore(lock, manager, (&record, &self.before.effective), runtime_hangs).await;
            if let Some((_, group)) = &self.pending.effective.rdt_class
                && let Err(error) = manager.move_to_rdt_group(&record, group)
            {
                tracing::error!(container, pod, %error, why, "cannot undo the RDT class");
            }
        }
        self.complete(lock, &manager.registry, &manager.audit);
    }

    /// Sets the resources of `record` again, in place of others.
    async fn restore(
        &self,
        lock: &UpdateLock,
        manager: &ResourceManager,
        (record, others): (&Record, &Value),
        runtime_hangs: bool,
    ) {
        let (container, pod, why) = (&record.key.id, &record.pod_id, &self.message);
        let mut drift = restore_files(&self.files);
        let mut before = runtime_part(&record.effective);
        let idle =
            manager.idle_in_update(&record.runtime, others, &record.effective, &record.owners);
        set_idle(&mut before, idle);
        end_idle(record, idle);
        if !runtime_hangs && let Err(error) = record.runtime.update(container, &before).await {
            if matches!(error, RuntimeError::Hangs { .. }) {
                lock.set_runtime_hung();
            }
            let changes = resource_changes(&record.effective, others, &record.owners);
            let names = changes.into_values().flatten().map(|change| change.field);
            let fields = names.collect::<Vec<_>>().join(", ");
            tracing::error!(container, pod, fields, %error, why, "cannot undo an update");
        }
        // Without enforcement, only the fields that the others have set are written.
        let tried = changed(&record.effective, others);
        drift.extend(match manager.policy().enforce {
            Enforce::Off => write_fields(record, &record.effective, &tried),
            _ => manager.enforce_with(record, &record.effective, &tried),
        });
        for drift in drift {
            let plugin = &drift.owner;
            tracing::error!(container, pod, plugin, %drift, why, "cannot undo an update");
        }
    }

    /// Whether the control groups hold the fields that the runtime sets. Other fields do not count,
    /// because `nrid` writes them after the runtime.
    fn was_made(&self) -> bool {
        let [before, after] = [&*self.before.effective, &self.pending.effective.resources];
        let by_runtime = changed(&runtime_part(before), &runtime_part(after));
        let has_no_runtime_part = by_runtime.as_object().is_none_or(Map::is_empty);
        match (has_no_runtime_part, self.pending.caller) {
            // An update by a wrapper in which the runtime has nothing to change cannot have failed.
            (true, Some(_)) => true,
            (true, None) => is_effective(&self.before, after, &changed(before, after)),
            (false, _) => is_effective(&self.before, after, &by_runtime),
        }
    }
}

/// Whether the control groups hold the values of `resources`, for the fields of `part`. True if
/// these fields have no control file.
fn is_effective(record: &Record, resources: &Value, part: &Value) -> bool {
    record.cgroup().is_none_or(|dirs| files::compare(&writes_of(resources, part, &dirs)).is_empty())
}

/// An update whose result was not reported, after its record was corrected.
#[derive(Debug)]
pub struct ReconciledUpdate {
    /// The update.
    pub update: ResourceUpdate,
    /// Whether it was made.
    pub was_made: bool,
}

impl ReconciledUpdate {
    /// Completes the pending update of a container if it was made, otherwise removes it from the
    /// record.
    pub fn of(lock: &UpdateLock, registry: &Registry, audit: &Audit) -> Option<Self> {
        let update = ResourceUpdate::of_record(lock)?;
        let was_made = update.was_made();
        let (id, pod) = (&update.before.key.id, &update.before.pod_id);
        tracing::info!(container = id, pod, made = was_made, "pending update reconciled");
        if was_made {
            update.complete(lock, registry, audit);
        } else {
            ResourceUpdate::withdraw(lock, registry);
        }
        Some(Self { update, was_made })
    }
}

impl ResourceManager {
    /// Enforces the effective resources of a container whose last update, if it had one, was
    /// reconciled.
    pub fn enforce_reconciled(&self, container: &Container, update: Option<&ReconciledUpdate>) {
        let record = container.record();
        if record.process_has_ended() {
            return;
        }
        // An update that `nrid` itself did not complete may be partly written.
        let of_nrid = update.filter(|u| !u.was_made && u.update.pending.caller.is_none());
        let tried = of_nrid.map_or(Value::Null, |ReconciledUpdate { update, .. }| {
            changed(&update.before.effective, &update.pending.effective.resources)
        });
        self.enforce_with(&record, &record.effective, &tried);
        let made = update.filter(|update| update.was_made);
        let effective = made.map(|made| &made.update.pending.effective);
        let Some(EffectiveResources { rdt_class: Some((_, group)), .. }) = effective else {
            return;
        };
        if let Err(error) = self.move_to_rdt_group(&record, group) {
            let (container, pod) = (&record.key.id, &record.pod_id);
            tracing::error!(container, pod, %error, "RDT class not effective");
        }
    }
}

/// Takes the update lock once no update is pending. Polls, because an update that a previous `nrid`
/// started does not hold the lock in this process.
pub async fn lock_for_update(container: &Arc<Container>) -> UpdateLock {
    loop {
        let lock = container.lock_update().await;
        if container.record().pending_update.is_none() {
            return lock;
        }
        drop(lock);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{record::EXAMPLE, store::Store};

    /// Plans an update, and completes it without a runtime. Returns the record.
    async fn update(
        manager: &ResourceManager,
        container: &Arc<Container>,
        by_engine: Value,
        by_plugin: Value,
    ) -> Arc<Record> {
        let merged = nri_spec::resources_to_nri(&by_plugin).unwrap();
        let owners = owners::of_plugin(&merged, "10-a");
        let (by_engine, merged, owners) = (&by_engine, &merged, &owners);
        let request = ResourceRequest {
            by_engine,
            merged,
            owners,
            caller: None,
            notify: false,
            creation: None,
        };
        let lock = container.lock_update().await;
        let update = ResourceUpdate::plan(manager, &lock, request).await.unwrap();
        update.begin(&lock, &manager.registry).unwrap();
        update.complete(&lock, &manager.registry, &manager.audit)
    }

    #[tokio::test]
    async fn a_record_says_that_swap_follows_memory_until_somebody_gives_it() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        (record.pending_update, record.owners) = (None, FieldOwners::new());
        let container = registry.insert(record).unwrap();
        let config = nri_config::Config::default();
        let manager = ResourceManager::new(Arc::new(registry), Audit::off(), &config);
        let none = || json!({});
        let memory = |limit: u64, swap: u64| json!({"memory": {"limit": limit, "swap": swap}});
        let limit = |limit: u64| json!({"memory": {"limit": limit}});
        // What the engine requests, what a plugin sets, and the record: the limit of swap, the
        // field that it follows, and the plugins of both limits.
        for (by_engine, by_plugin, swap, follows, owner) in [
            (memory(100, 200), limit(20), 20, true, [Some("10-a"); 2]),
            (json!({"pids": {"limit": 7}}), none(), 20, true, [Some("10-a"); 2]),
            (limit(30), none(), 30, true, [None; 2]),
            (json!({"memory": {"swap": 50}}), none(), 50, false, [None; 2]),
            (none(), limit(60), 60, true, [Some("10-a"); 2]),
            (none(), memory(60, 70), 70, false, [Some("10-a"); 2]),
            (memory(60, 80), none(), 80, false, [None; 2]),
        ] {
            let text = format!("{by_engine} {by_plugin}");
            let record = update(&manager, &container, by_engine, by_plugin).await;
            let stored: Record =
                serde_json::from_str(&serde_json::to_string(&*record).unwrap()).unwrap();
            assert_eq!(stored.effective["memory"]["swap"], swap, "{text}");
            let source = stored.derived.source("memory.swap");
            assert_eq!(source, follows.then_some("memory.limit"), "{text}");
            let owners = ["memory.limit", "memory.swap"].map(|f| owners::owner(&stored.owners, f));
            assert_eq!(owners.each_ref().map(Option::as_deref), owner, "{text}");
        }
    }
}
