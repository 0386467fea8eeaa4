//! The keeper of the containers, as the adaptation knows it: what plugins are synchronized with, and what they may change at any time.

use crate::{
    capabilities::Versions,
    record::{Phase, Record},
    registry::{Container, Registry},
};
use async_trait::async_trait;
use nri_adaptation::{Host, PluginStatus, Snapshot};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate},
};
use std::sync::Arc;

/// What plugins' sessions need of us. It must not wait for a lane: lanes are held while plugins are asked.
#[derive(Debug)]
pub struct Keeper {
    /// What is known.
    pub registry: Arc<Registry>,
    /// The runtimes' versions.
    pub versions: Versions,
}

#[async_trait]
impl Host for Keeper {
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for container in self.registry.all() {
            self.look_at_run(&container).await;
            let record = container.record();
            if record.phase == Phase::Stopped {
                continue;
            }
            let (pod, message) = self.registry.messages(&container);
            if !snapshot.pods.iter().any(|p| p.id == pod.id) {
                snapshot.pods.push(pod);
            }
            if !record.sandbox {
                snapshot.containers.push(message);
            }
        }
        snapshot
    }

    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let failed = self.set_all(updates, &plugin.to_string()).await;
        self.evict_all(evictions);
        failed.into_iter().map(|f| f.update).collect()
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let name = status.id.as_ref().map_or_else(|| "(not registered)".to_owned(), ToString::to_string);
        tracing::info!(plugin = name, state = ?status.state, pid = status.pid, error = status.last_error, "plugin");
    }
}

impl Keeper {
    /// Without our hooks nobody reports the life of a container that was made by `run`: it is looked at when somebody wants to know.
    async fn look_at_run(&self, container: &Container) {
        let record: Record = container.record();
        if !record.by_run || record.hooked || record.pid.is_some() {
            return;
        }
        if let Ok(state) = record.runtime.state(&record.key.id).await {
            self.registry.change(container, |r| r.note_state(&state));
        }
    }
}
