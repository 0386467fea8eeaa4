//! Updates of containers on request of plugins, one at a time per container. `nrid` calls the
//! runtime's `update`, which keeps the runtime's own state correct, and writes to control groups
//! for fields that runtimes cannot set.

use crate::{
    audit::line_of,
    error::{PluginError, ResourceError},
    host::{error_chain::chain, runtime::RuntimeError},
    plugins::{effects::Effects, requests::PluginRequests},
    resources::{
        updatable::check_updatable,
        update::{HUNG_INTERVAL, LOCK_TIMEOUT, ResourceRequest, ResourceUpdate, lock_for_update},
    },
    state::{container::Container, record::Record, registry::Registry, status::ContainerStatus},
};
use nri_api::proto::ContainerUpdate;
use nri_cgroup::SetChange;
use nri_files::{AuditEvent, AuditLine};
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

/// An update that failed.
#[derive(Debug)]
pub struct UpdateFailure {
    /// The request.
    pub update: ContainerUpdate,
    /// The cause of the failure.
    pub error: ResourceError,
}

/// Checks that all failed updates have `ignore_failure`.
///
/// # Errors
/// The container of the first failed update without `ignore_failure`, and the cause.
pub fn check_required(failed: Vec<UpdateFailure>) -> Result<(), PluginError> {
    match failed.into_iter().find(|f| !f.update.ignore_failure) {
        Some(UpdateFailure { update, error }) => {
            Err(PluginError::Update { container: update.container_id, source: error })
        }
        None => Ok(()),
    }
}

impl PluginRequests {
    /// Updates containers, and returns the updates that failed. If they are part of a `creation`,
    /// its failure undoes them.
    pub async fn update_all(
        &self,
        effects: &Effects<'_>,
        creation: Option<&Container>,
    ) -> Vec<UpdateFailure> {
        let ordered = in_order(&self.resources.registry, effects.updates);
        let all = ordered.len();
        let mut failed = self.update_each(ordered, effects, creation).await;
        if failed.len() < all {
            // Others may have been in the way: a cgroup cannot give up CPUs that one below it has.
            let is_refused = |(_, failure): &Failed| {
                let error = &failure.error;
                matches!(error, ResourceError::Runtime(RuntimeError::Failed { .. }))
                    || matches!(error, ResourceError::NotEffective(_))
            };
            let (again, others): (Vec<_>, _) = failed.into_iter().partition(is_refused);
            let again = again.iter().map(|(at, _)| (*at, &effects.updates[*at])).collect();
            failed = others;
            failed.extend(self.update_each(again, effects, creation).await);
        }
        failed.sort_by_key(|(at, _)| *at);
        let failed: Vec<_> = failed.into_iter().map(|(_, failure)| failure).collect();
        self.report_failed(&failed, effects);
        failed
    }

    /// Updates containers one after the other, and returns those that failed, with their places.
    async fn update_each(
        &self,
        updates: Vec<(usize, &ContainerUpdate)>,
        effects: &Effects<'_>,
        creation: Option<&Container>,
    ) -> Vec<Failed> {
        let mut failed = Vec::new();
        for (at, update) in updates {
            if let Err(error) = self.update_one(update, effects, creation).await {
                failed.push((at, UpdateFailure { update: update.clone(), error }));
            }
            // Other tasks must run, too: an update of an unknown container never awaits anything,
            // and a plugin may request thousands.
            tokio::task::yield_now().await;
        }
        failed
    }

    /// Writes to the log and to the audit log which updates failed.
    pub fn report_failed(&self, failed: &[UpdateFailure], effects: &Effects<'_>) {
        if failed.is_empty() {
            return;
        }
        let ignored = failed.iter().filter(|f| f.update.ignore_failure).count();
        tracing::warn!(
            source = %effects,
            failed = failed.len(),
            ignored,
            error = summary(failed),
            "updates failed"
        );
        if !self.resources.audit.is_enabled() {
            return;
        }
        let (event, request) = (AuditEvent::Refusal, "plugin");
        for UpdateFailure { update, error } in failed.iter().take(MAX_AUDITED) {
            let id = &update.container_id;
            let line = self.line_about(id, event);
            let plugin = effects.updaters(id).join(",");
            let (request, message) = (request.into(), chain(error));
            self.resources.audit.write(AuditLine { plugin, request, message, ..line });
        }
        if let Some(more) = failed.get(MAX_AUDITED..).filter(|more| !more.is_empty()) {
            let (plugin, message) = (effects.updaters("").join(","), summary(more));
            let line = AuditLine { event, plugin, message, ..AuditLine::default() };
            self.resources.audit.write(AuditLine { request: request.into(), ..line });
        }
    }

    /// Returns a line of the audit log about a container, which may not exist.
    pub(super) fn line_about(&self, id: &str, event: AuditEvent) -> AuditLine {
        let registry = &self.resources.registry;
        match registry.by_nri_id(id) {
            Some(container) => line_of(&container.record(), &registry.pods, event),
            None => AuditLine { event, container: cut_id(id), ..AuditLine::default() },
        }
    }

    async fn update_one(
        &self,
        update: &ContainerUpdate,
        effects: &Effects<'_>,
        creation: Option<&Container>,
    ) -> Result<(), ResourceError> {
        let container = self.resources.registry.by_nri_id(&update.container_id);
        let container = container.ok_or(ResourceError::UnknownContainer)?;
        let Some(resources) = update.linux.as_ref().and_then(|l| l.resources.as_ref()) else {
            return Ok(());
        };
        let owners = effects.owners(&update.container_id, resources);
        check_updatable(resources, &owners)?;
        let lock = tokio::time::timeout(LOCK_TIMEOUT, lock_for_update(&container)).await;
        let lock = lock.map_err(|_| ResourceError::Busy)?;
        if container.runtime_hung_within(HUNG_INTERVAL) {
            return Err(ResourceError::RuntimeHung(HUNG_INTERVAL));
        }
        let record = self.record_with_process(&container).await;
        if record.status == ContainerStatus::Creating || record.status == ContainerStatus::Stopped {
            return Err(ResourceError::Status(record.status));
        }
        let request = ResourceRequest {
            by_engine: &Value::Null,
            merged: resources,
            owners: &owners,
            caller: None,
            notify: false,
            creation: creation.map(Container::hook_name),
        };
        let update = ResourceUpdate::plan(&self.resources, &lock, request).await?;
        update.check(&self.resources, &owners).await?;
        update.begin(&lock, &self.resources.registry)?;
        if let Err(error) = update.perform(&lock, &self.resources).await {
            let runtime_hangs =
                matches!(&error, ResourceError::Runtime(RuntimeError::Hangs { .. }));
            if runtime_hangs {
                lock.set_runtime_hung();
            }
            update.undo(&lock, &self.resources, runtime_hangs).await;
            return Err(error);
        }
        update.complete(&lock, &self.resources.registry, &self.resources.audit);
        if let Some(creation) = creation {
            creation.add_updated(container.clone());
        }
        let (id, pod) = (&record.key.id, &record.pod_id);
        tracing::debug!(container = id, pod, plugin = %effects, "container updated by plugin");
        Ok(())
    }

    /// Returns the record, with the first process if the runtime knows the process. A created
    /// container can be updated before `create` has recorded the process, and without the process
    /// the control groups are unknown.
    async fn record_with_process(&self, container: &Container) -> Arc<Record> {
        let record = container.record();
        if record.cgroups.is_some() || record.status != ContainerStatus::Created {
            return record;
        }
        match record.runtime.pid(&record.key.id).await {
            Some(pid) => self.resources.registry.change_if(container, |r| r.set_process(pid)),
            None => record,
        }
    }
}

/// An update that failed, with its place in the request.
type Failed = (usize, UpdateFailure);

/// Returns updates in the order in which they are made, with their places: CPUs that are given up
/// come first, from the innermost cgroup on, and CPUs that are only added last, from the outermost.
/// So no container gets CPUs that another one still has. Several updates of one container stay in
/// their order.
fn in_order<'a>(
    registry: &Registry,
    updates: &'a [ContainerUpdate],
) -> Vec<(usize, &'a ContainerUpdate)> {
    let mut all: Vec<_> = updates.iter().enumerate().collect();
    let ids: HashSet<&str> = updates.iter().map(|update| update.container_id.as_str()).collect();
    if ids.len() == updates.len() {
        all.sort_by_cached_key(|(_, update)| {
            let Some(container) = registry.by_nri_id(&update.container_id) else {
                return (SetChange::Stays, 0);
            };
            let record = container.record();
            let before = record.effective.pointer("/cpu/cpus").and_then(Value::as_str);
            let after = &update.linux.resources.cpu.cpus;
            let path = record.configured_cgroup().unwrap_or_default();
            let depth = i64::try_from(path.components().count()).unwrap_or_default();
            match SetChange::of(before.unwrap_or_default(), after) {
                SetChange::Grows => (SetChange::Grows, depth),
                change => (change, -depth),
            }
        });
    }
    all
}

/// Maximum number of updates of one request that have a line each in the audit log, because they
/// have no effect.
pub(super) const MAX_AUDITED: usize = 100;

/// Maximum number of causes in a log line, and of containers per cause: a plugin may request
/// thousands of updates at once.
const MAX_NAMED: usize = 3;

/// Length in characters to which ids are cut in the log: a plugin may request an update with any
/// text as the id.
const MAX_ID: usize = 128;

/// Describes the causes of failures, each with the containers, in one line.
fn summary(failed: &[UpdateFailure]) -> String {
    struct Cause {
        text: String,
        count: usize,
        ids: Vec<String>,
    }
    let mut causes: Vec<Cause> = Vec::new();
    let mut others = 0;
    for UpdateFailure { update, error } in failed {
        let text = chain(error);
        if !causes.iter().any(|known| known.text == text) && causes.len() < MAX_NAMED {
            causes.push(Cause { text: text.clone(), count: 0, ids: Vec::new() });
        }
        match causes.iter_mut().find(|known| known.text == text) {
            Some(cause) => {
                cause.count += 1;
                if cause.ids.len() < MAX_NAMED {
                    cause.ids.push(cut_id(&update.container_id));
                }
            }
            None => others += 1,
        }
    }
    let described = causes.into_iter().map(|Cause { text, count, ids }| {
        let more = count - ids.len();
        let more = if more > 0 { format!(" and {more} others") } else { String::new() };
        format!("container {}{more}: {text}", ids.join(", "))
    });
    let mut text = described.collect::<Vec<_>>().join("; ");
    if others > 0 {
        text += &format!("; {others} updates for other causes");
    }
    text
}

/// Returns an id for the log.
fn cut_id(id: &str) -> String {
    id.chars().take(MAX_ID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{record::EXAMPLE, store::Store};

    #[test]
    fn cpus_are_given_up_before_others_get_them_and_by_children_first() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let example = EXAMPLE.replace("\"--systemd-cgroup\"", "");
        let update = |id: &str, cpus: &str| {
            let mut update = ContainerUpdate { container_id: id.into(), ..Default::default() };
            let linux = update.linux.mut_or_insert_default();
            let cpu = linux.resources.mut_or_insert_default().cpu.mut_or_insert_default();
            cpu.cpus = cpus.to_owned();
            update
        };
        let mut updates = Vec::new();
        for (id, cgroup, before, after) in [
            ("grows-below", "/a/b", "0", "0-1"),
            ("grows", "/a", "0", "0-1"),
            ("stays", "/a", "0", ""),
            ("shrinks", "/c", "0-3", "0"),
            ("moves", "/d", "0-1", "1-2"),
            ("shrinks-below", "/c/d", "0-3", "0"),
        ] {
            let mut record: Record = serde_json::from_str(&example).unwrap();
            record.key.id = id.to_owned();
            record.effective = serde_json::json!({"cpu": {"cpus": before}}).into();
            record.container.change(|container| {
                container.id = id.to_owned();
                container.linux.mut_or_insert_default().cgroups_path = cgroup.to_owned();
            });
            registry.insert(record).unwrap();
            updates.push(update(id, after));
        }
        let order = |updates: &[ContainerUpdate]| {
            let ordered = in_order(&registry, updates).into_iter();
            ordered.map(|(_, update)| update.container_id.clone()).collect::<Vec<_>>()
        };
        let expected = ["shrinks-below", "shrinks", "moves", "stays", "grows", "grows-below"];
        assert_eq!(order(&updates), expected);
        // The last one counts.
        let twice = [update("grows", "0-1"), update("grows", "0")];
        assert_eq!(
            in_order(&registry, &twice).iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(order(&[update("none", "0"), update("shrinks", "0")]), ["shrinks", "none"]);
    }

    #[test]
    fn failed_updates_are_described_in_one_line() {
        let failed = |id: &str, error| UpdateFailure {
            update: ContainerUpdate { container_id: id.to_owned(), ..Default::default() },
            error,
        };
        let mut all: Vec<_> =
            (0..100).map(|n| failed(&format!("u{n}"), ResourceError::UnknownContainer)).collect();
        all.push(failed("c", ResourceError::Busy));
        let unknown = ResourceError::UnknownContainer.to_string();
        let busy = ResourceError::Busy.to_string();
        assert_eq!(
            summary(&all),
            format!("container u0, u1, u2 and 97 others: {unknown}; container c: {busy}")
        );
    }
}
