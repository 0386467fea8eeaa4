//! Setting the resources of containers that exist, as plugins asked: one at a time per container,
//! through the container's own runtime, so that its state stays true, and through the control
//! groups, for what runtimes cannot. Also evictions.

use crate::{
    error::PluginError,
    host::{error_chain::chain, process::Process},
    resources::{error::ResourceError, keeper::Keeper, owners},
    state::{
        container::Container,
        record::{EffectiveResources, PendingUpdate, Record},
        status::ContainerStatus,
    },
};
use nri_api::PluginId;
use nri_api::proto::{
    ContainerEviction, ContainerUpdate, FieldOwners, LinuxResources, OwningPlugins,
};
use nri_spec::changed;
use serde_json::{Map, Value};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::MutexGuard;

/// What `update` of the runtimes can set. The rest is written to the control groups (`enforce.rs`).
const UPDATABLE: [(&str, &[&str]); 4] = [
    ("memory", &["limit", "reservation", "swap", "checkBeforeUpdate"]),
    (
        "cpu",
        &[
            "shares",
            "quota",
            "period",
            "burst",
            "idle",
            "realtimeRuntime",
            "realtimePeriod",
            "cpus",
            "mems",
        ],
    ),
    ("pids", &["limit"]),
    ("blockIO", &["weight"]),
];

/// How long a container has between SIGTERM and SIGKILL when it is evicted.
const GRACE: Duration = Duration::from_secs(10);

/// How long an update waits for another one of the same container.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who asks for updates.
#[derive(Debug, Clone, Copy)]
pub enum By<'a> {
    /// One plugin, out of itself.
    Plugin(&'a PluginId),
    /// All that were asked about something, and who of them set what.
    Merged(&'a OwningPlugins),
}

impl By<'_> {
    fn owns(self, owners: &mut FieldOwners, container: &str, changed: &Value) {
        match self {
            Self::Plugin(plugin) => owners::pass_on(owners, changed, Some(&plugin.to_string())),
            Self::Merged(all) => {
                if let Some(new) = all.owners.get(container) {
                    owners::take_over(owners, new);
                }
            }
        }
    }
}

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(plugin) => plugin.fmt(f),
            Self::Merged(_) => f.write_str("plugins"),
        }
    }
}

/// How often it is looked whether one that was under way has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An update that was not made.
#[derive(Debug)]
pub struct Failed {
    /// As asked.
    pub update: ContainerUpdate,
    /// Why not.
    pub error: ResourceError,
}

/// Returns the first update that failed, unless the plugin allows it to fail.
///
/// # Errors
/// The container and why its update failed.
pub fn check_required(failed: Vec<Failed>) -> Result<(), PluginError> {
    match failed.into_iter().find(|f| !f.update.ignore_failure) {
        Some(Failed { update, error }) => {
            Err(PluginError::Update { container: update.container_id, source: error })
        }
        None => Ok(()),
    }
}

impl Keeper {
    /// Makes updates of containers; returns those that failed.
    pub async fn set_all(&self, updates: Vec<ContainerUpdate>, by: By<'_>) -> Vec<Failed> {
        let mut failed = Vec::new();
        if self.rules().shadow {
            for update in updates {
                tracing::info!(container = update.container_id, %by, ?update, "shadow: would be \
                updated");
                // It is told the truth; a creation or an update that others asked for goes on.
                if let By::Plugin(_) = by {
                    failed.push(Failed { update, error: ResourceError::Shadow });
                }
            }
            return failed;
        }
        for update in updates {
            if let Err(error) = self.set_one(&update, by).await {
                tracing::warn!(
                    container = update.container_id,
                    %by,
                    error = chain(&error),
                    ignored = update.ignore_failure,
                    "update failed"
                );
                failed.push(Failed { update, error });
            }
        }
        failed
    }

    async fn set_one(&self, update: &ContainerUpdate, by: By<'_>) -> Result<(), ResourceError> {
        let container = self.registry.by_nri_id(&update.container_id);
        let container = container.ok_or(ResourceError::UnknownContainer)?;
        let Some(resources) = update.linux.as_ref().and_then(|l| l.resources.as_ref()) else {
            return Ok(());
        };
        refuse_unsettable(resources)?;
        let turn = tokio::time::timeout(PATIENCE, turn(&container)).await;
        let _turn = turn.map_err(|_| ResourceError::Busy)?;
        let record = container.record();
        if record.status == ContainerStatus::Creating || record.status == ContainerStatus::Stopped {
            return Err(ResourceError::Status(record.status));
        }
        let mut wanted = self.lay(&record.effective, resources)?;
        follow_swap(&record.effective, resources.memory.swap.is_some(), &mut wanted.resources);
        // Who asked is told by itself.
        self.check_wanted(&record, &wanted, &FieldOwners::default()).await?;
        let mut owners = record.owners.clone();
        by.owns(&mut owners, &update.container_id, &changed(&record.effective, &wanted.resources));
        let pending = PendingUpdate {
            requested: record.requested.clone(),
            effective: wanted.clone(),
            owners,
            caller: None,
            notify: false,
        };
        self.registry.try_change(&container, |r| r.pending_update = Some(pending.clone()))?;
        let made = self.make(&record, &wanted).await;
        if made.is_err() {
            self.take_back(&record, &wanted).await;
            self.registry.change(&container, |r| r.pending_update = None);
        } else {
            self.registry.change(&container, |r| r.complete(pending));
        }
        made
    }

    /// Whether the runtime and this host can do what is wanted.
    ///
    /// # Errors
    /// Names what they cannot.
    pub async fn check_wanted(
        &self,
        record: &Record,
        wanted: &EffectiveResources,
        owners: &FieldOwners,
    ) -> Result<(), ResourceError> {
        let (before, after) =
            (update_document(&record.effective), update_document(&wanted.resources));
        self.check_resources(&record.runtime, &before, &after, owners).await?;
        self.check_rest(record, wanted)
    }

    async fn make(
        &self,
        record: &Record,
        wanted: &EffectiveResources,
    ) -> Result<(), ResourceError> {
        let (before, after) =
            (update_document(&record.effective), update_document(&wanted.resources));
        if before != after {
            record.runtime.update(&record.key.id, &after).await?;
        }
        self.enforce_strictly(record, &wanted.resources)?;
        match &wanted.rdt_class {
            Some((_, group)) => self.move_to_rdt_group(record, group),
            None => Ok(()),
        }
    }

    /// After an update that failed half way: what was in force is in force again.
    pub async fn take_back(&self, record: &Record, tried: &EffectiveResources) {
        let before = update_document(&record.effective);
        if let Err(error) = record.runtime.update(&record.key.id, &before).await {
            tracing::error!(container = record.key.id, %error, "cannot take a failed update back");
        }
        let tried = changed(&record.effective, &tried.resources);
        self.enforce_with(record, &record.effective, &tried);
    }

    /// Stops containers, as plugins asked: SIGTERM, and after a grace SIGKILL.
    pub fn evict_all(&self, evictions: Vec<ContainerEviction>) {
        for eviction in evictions {
            if self.rules().shadow {
                let ContainerEviction { container_id: container, reason, .. } = eviction;
                tracing::info!(container, reason, "shadow: would be evicted");
                continue;
            }
            match self.registry.by_nri_id(&eviction.container_id) {
                Some(container) => drop(tokio::spawn(evict(container, eviction.reason))),
                None => tracing::warn!(
                    container = eviction.container_id,
                    "cannot evict: no such container"
                ),
            }
        }
    }
}

/// The turn at a container of which no update is under way: one that a former `nrid` began holds no
/// lock of ours.
async fn turn(container: &Container) -> MutexGuard<'_, ()> {
    loop {
        let turn = container.update_lock.lock().await;
        if container.record().pending_update.is_none() {
            return turn;
        }
        drop(turn);
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn evict(container: Arc<Container>, reason: String) {
    let record = container.record();
    tracing::info!(container = record.key.id, reason, "evicted");
    for signal in ["TERM", "KILL"] {
        if let Err(error) = record.runtime.kill(&record.key.id, signal).await {
            tracing::warn!(container = record.key.id, %error, "eviction");
            return;
        }
        if let Some(process) = record.pid.and_then(Process::open)
            && tokio::time::timeout(GRACE, process.ended()).await.is_ok()
        {
            return;
        }
    }
}

/// Names what nobody can set for a container that exists.
///
/// # Errors
/// The names, if there are any.
pub fn refuse_unsettable(resources: &LinuxResources) -> Result<(), ResourceError> {
    let memory = resources.memory.get_or_default();
    let asked = [
        // The program that holds them in version 2 is the runtime's.
        ("device rules", !resources.devices.is_empty()),
        // The kernel has it no more.
        ("memory.kernel", memory.kernel.is_some()),
        // It can only be changed while nothing is below.
        ("memory.use_hierarchy", memory.use_hierarchy.is_some()),
    ];
    let names: Vec<_> = asked.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name).collect();
    if names.is_empty() { Ok(()) } else { Err(ResourceError::NotUpdatable(names)) }
}

/// Keeps the limit of memory and swap in step with a new memory limit where nobody gave it: it was
/// the same, as at the creation, or the runtime would refuse a memory limit above it.
pub fn follow_swap(before: &Value, swap_given: bool, after: &mut Value) {
    let number = |resources: &Value, field| resources.pointer(field).and_then(Value::as_i64);
    let (was, now) = (number(before, "/memory/limit"), number(after, "/memory/limit"));
    let (Some(swap), Some(limit)) = (number(before, "/memory/swap").filter(|s| *s > 0), now) else {
        return;
    };
    let in_step = was == Some(swap) || limit > swap || limit < 0;
    if !swap_given
        && was != now
        && in_step
        && let Some(memory) = after.get_mut("memory").and_then(Value::as_object_mut)
    {
        memory.insert("swap".to_owned(), limit.into());
    }
}

/// The part of the resources that `update` takes: all of it, since runc forgets what is left out.
pub fn update_document(resources: &Value) -> Value {
    let mut document = Map::new();
    for (group, fields) in UPDATABLE {
        let part: Map<String, Value> = fields
            .iter()
            .filter_map(|f| {
                resources
                    .get(group)?
                    .get(f)
                    .filter(|v| !v.is_null())
                    .map(|v| ((*f).to_owned(), v.clone()))
            })
            .collect();
        if !part.is_empty() {
            document.insert(group.to_owned(), Value::Object(part));
        }
    }
    if let Some(unified) =
        resources.get("unified").filter(|u| u.as_object().is_some_and(|u| !u.is_empty()))
    {
        document.insert("unified".to_owned(), unified.clone());
    }
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::opt;
    use serde_json::json;

    #[test]
    fn only_what_update_takes_and_no_nulls() {
        let resources = json!({
            "devices": [{"allow": false}], "hugepageLimits": [{"pageSize": "2MB", "limit": 0}],
            "memory": {"limit": 1, "kernel": 2, "swap": null}, "cpu": {"shares": null}, "pids": {"limit": 0}, "unified": {}
        });
        assert_eq!(
            update_document(&resources),
            json!({"memory": {"limit": 1}, "pids": {"limit": 0}})
        );
    }

    #[test]
    fn swap_follows_the_limit_unless_somebody_gave_it() {
        let memory = |limit: i64, swap: Option<i64>| {
            let mut memory = json!({"memory": {"limit": limit}});
            if let Some(swap) = swap {
                memory["memory"]["swap"] = swap.into();
            }
            memory
        };
        // Before, after, whether swap was given; swap in the end.
        for (before, after, given, swap) in [
            (memory(10, Some(10)), memory(20, Some(10)), false, Some(20)),
            (memory(10, Some(10)), memory(5, Some(10)), false, Some(5)),
            (memory(10, Some(30)), memory(20, Some(30)), false, Some(30)),
            (memory(10, Some(30)), memory(40, Some(30)), false, Some(40)),
            (memory(10, Some(10)), memory(-1, Some(10)), false, Some(-1)),
            (memory(10, Some(-1)), memory(20, Some(-1)), false, Some(-1)),
            (memory(10, Some(10)), memory(20, Some(25)), true, Some(25)),
            (memory(10, None), memory(20, None), false, None),
        ] {
            let mut result = after.clone();
            follow_swap(&before, given, &mut result);
            assert_eq!(
                result.pointer("/memory/swap").and_then(Value::as_i64),
                swap,
                "{before} {after}"
            );
        }
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        let mut resources = LinuxResources::new();
        assert!(refuse_unsettable(&resources).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        memory.swappiness = opt(Some(0));
        assert!(refuse_unsettable(&resources).is_ok());
        let memory = resources.memory.mut_or_insert_default();
        (memory.kernel, memory.use_hierarchy) = (opt(Some(1)), opt(Some(true)));
        assert_eq!(
            refuse_unsettable(&resources).unwrap_err().to_string(),
            "a running container's memory.kernel, memory.use_hierarchy cannot be updated"
        );
    }
}
