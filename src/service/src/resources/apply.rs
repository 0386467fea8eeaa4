//! Updates of containers on request of plugins, one at a time per container: with the container's
//! runtime, which keeps the runtime's state correct, and by writing control groups for fields that
//! runtimes cannot set.

use crate::{
    error::PluginError,
    host::error_chain::chain,
    resources::{
        error::ResourceError,
        manager::ResourceManager,
        owners,
        updatable::{adapt_swap, check_updatable, runtime_part},
    },
    state::{
        container::Container,
        record::{EffectiveResources, PendingUpdate, Record},
        status::ContainerStatus,
    },
};
use nri_api::PluginId;
use nri_api::proto::{ContainerUpdate, FieldOwners, OwningPlugins};
use nri_spec::changed;
use serde_json::Value;
use std::{fmt, time::Duration};
use tokio::sync::MutexGuard;

/// Time that an update waits for another update of the same container; equals the timeout of a
/// call of the runtime.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The plugin or plugins that requested an update.
#[derive(Debug, Clone, Copy)]
pub enum UpdateSource<'a> {
    /// One plugin, unsolicited.
    Plugin(&'a PluginId),
    /// All plugins that replied to an event, and the owners of the fields that they set.
    Merged(&'a OwningPlugins),
}

impl UpdateSource<'_> {
    /// Records the owners of the changed fields of a container.
    fn own(self, owners: &mut FieldOwners, container: &str, changed: &Value) {
        match self {
            Self::Plugin(plugin) => owners::assign(owners, changed, Some(&plugin.to_string())),
            Self::Merged(all) => {
                if let Some(new) = all.owners.get(container) {
                    owners::merge(owners, new);
                }
            }
        }
    }
}

impl fmt::Display for UpdateSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(plugin) => plugin.fmt(f),
            Self::Merged(_) => f.write_str("plugins"),
        }
    }
}

/// Interval of checks whether an update that a previous `nrid` started has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An update that failed.
#[derive(Debug)]
pub struct UnperformedUpdate {
    /// The request.
    pub update: ContainerUpdate,
    /// The cause of the failure.
    pub error: ResourceError,
}

/// Checks that no update failed but those with `ignore_failure`.
///
/// # Errors
/// The container of the first such update, and the cause of the failure.
pub fn check_required(failed: Vec<UnperformedUpdate>) -> Result<(), PluginError> {
    match failed.into_iter().find(|f| !f.update.ignore_failure) {
        Some(UnperformedUpdate { update, error }) => {
            Err(PluginError::Update { container: update.container_id, source: error })
        }
        None => Ok(()),
    }
}

impl ResourceManager {
    /// Updates containers, and returns the updates that failed.
    pub async fn update_all(
        &self,
        updates: Vec<ContainerUpdate>,
        source: UpdateSource<'_>,
    ) -> Vec<UnperformedUpdate> {
        let mut failed = Vec::new();
        if self.policy().shadow {
            for update in updates {
                let container = &update.container_id;
                tracing::info!(container, %source, ?update, "shadow: would be updated");
                // An unsolicited update fails; the event of a caller continues.
                if let UpdateSource::Plugin(_) = source {
                    failed.push(UnperformedUpdate { update, error: ResourceError::Shadow });
                }
            }
            return failed;
        }
        for update in updates {
            if let Err(error) = self.update_one(&update, source).await {
                tracing::warn!(
                    container = update.container_id,
                    %source,
                    error = chain(&error),
                    ignored = update.ignore_failure,
                    "update failed"
                );
                failed.push(UnperformedUpdate { update, error });
            }
        }
        failed
    }

    async fn update_one(
        &self,
        update: &ContainerUpdate,
        source: UpdateSource<'_>,
    ) -> Result<(), ResourceError> {
        let container = self.registry.by_nri_id(&update.container_id);
        let container = container.ok_or(ResourceError::UnknownContainer)?;
        let Some(resources) = update.linux.as_ref().and_then(|l| l.resources.as_ref()) else {
            return Ok(());
        };
        check_updatable(resources)?;
        let lock = tokio::time::timeout(LOCK_TIMEOUT, lock_for_update(&container)).await;
        let _lock = lock.map_err(|_| ResourceError::Busy)?;
        let record = container.record();
        if record.status == ContainerStatus::Creating || record.status == ContainerStatus::Stopped {
            return Err(ResourceError::Status(record.status));
        }
        let mut wanted = self.overlay(&record.effective, resources)?;
        adapt_swap(&record.effective, resources.memory.swap.is_some(), &mut wanted.resources);
        // The error needs no owners, since the plugin that sent the request receives it.
        self.check_supported(&record, &wanted, &FieldOwners::default()).await?;
        let mut owners = record.owners.clone();
        source.own(
            &mut owners,
            &update.container_id,
            &changed(&record.effective, &wanted.resources),
        );
        let pending = PendingUpdate {
            requested: record.requested.clone(),
            effective: wanted.clone(),
            owners,
            caller: None,
            notify: false,
        };
        self.registry.try_change(&container, |r| r.pending_update = Some(pending.clone()))?;
        let updated = self.perform(&record, &wanted).await;
        if updated.is_err() {
            self.undo(&record, &wanted).await;
            self.registry.change(&container, |r| r.pending_update = None);
        } else {
            self.registry.change(&container, |r| r.complete(pending));
        }
        updated
    }

    /// Checks that the runtime and this host can set these resources.
    ///
    /// # Errors
    /// The fields that they cannot set.
    pub async fn check_supported(
        &self,
        record: &Record,
        wanted: &EffectiveResources,
        owners: &FieldOwners,
    ) -> Result<(), ResourceError> {
        let (before, after) = (runtime_part(&record.effective), runtime_part(&wanted.resources));
        self.check_resources(&record.runtime, &before, &after, owners).await?;
        self.check_cgroup_files(record, wanted)
    }

    async fn perform(
        &self,
        record: &Record,
        wanted: &EffectiveResources,
    ) -> Result<(), ResourceError> {
        let (before, after) = (runtime_part(&record.effective), runtime_part(&wanted.resources));
        if before != after {
            record.runtime.update(&record.key.id, &after).await?;
        }
        self.enforce_strictly(record, &wanted.resources)?;
        match &wanted.rdt_class {
            Some((_, group)) => self.move_to_rdt_group(record, group),
            None => Ok(()),
        }
    }

    /// Restores the effective resources after a failed update, which may have set some fields.
    pub async fn undo(&self, record: &Record, tried: &EffectiveResources) {
        let before = runtime_part(&record.effective);
        if let Err(error) = record.runtime.update(&record.key.id, &before).await {
            tracing::error!(container = record.key.id, %error, "cannot undo a failed update");
        }
        let tried = changed(&record.effective, &tried.resources);
        self.enforce_with(record, &record.effective, &tried);
    }
}

/// Takes the update lock once no update is pending. An update that a previous `nrid` started holds
/// no lock in this process, hence the polling.
async fn lock_for_update(container: &Container) -> MutexGuard<'_, ()> {
    loop {
        let lock = container.update_lock.lock().await;
        if container.record().pending_update.is_none() {
            return lock;
        }
        drop(lock);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
