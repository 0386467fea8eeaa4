//! Manager of containers for tests.

use super::log::Log;
use async_trait::async_trait;
use nri_adaptation::{ContainerManager, Origin, PluginState, PluginStatus, Snapshot, WithheldBy};
use nri_api::PluginId;
use nri_api::proto::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// Manager of containers that records its calls.
pub(crate) struct TestManager {
    pub(crate) state: Mutex<Snapshot>,
    pub(crate) origins: Mutex<HashMap<String, Origin>>,
    pub(crate) log: Log,
}

#[async_trait]
impl ContainerManager for TestManager {
    async fn snapshot(&self) -> Snapshot {
        self.log.add("manager snapshot");
        self.state.lock().unwrap().clone()
    }

    /// Updates of containers whose id starts with "bad" fail.
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        for update in &updates {
            self.log.add(format!("manager update {} by {plugin}", update.container_id));
        }
        for eviction in &evictions {
            self.log.add(format!("manager evict {} by {plugin}", eviction.container_id));
        }
        updates.into_iter().filter(|u| u.container_id.starts_with("bad")).collect()
    }

    fn origin(&self, id: &str) -> Origin {
        self.origins.lock().unwrap().get(id).cloned().unwrap_or_default()
    }

    fn find(&self, container: &str) -> Option<(PodSandbox, Container)> {
        let Snapshot { pods, containers } = self.state.lock().unwrap().clone();
        let container = containers.into_iter().find(|c| c.id == container)?;
        let pod = pods.into_iter().find(|pod| pod.id == container.pod_sandbox_id);
        Some((pod.unwrap_or_default(), container))
    }

    fn updates_withheld(
        &self,
        plugin: &PluginId,
        by: WithheldBy,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) {
        let updates = updates.iter().map(|update| format!("update {}", update.container_id));
        let evictions = evictions.iter().map(|evict| format!("evict {}", evict.container_id));
        let all: Vec<_> = updates.chain(evictions).collect();
        self.log.add(format!("withheld {plugin} {by:?}: {}", all.join(", ")));
    }

    /// Lines that start with "slow" block for 600 s, like a log on a hanging disk.
    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        if line.starts_with("slow") {
            std::thread::park_timeout(Duration::from_secs(600));
        }
        self.log.add(format!("{plugin} printed {line}"));
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let name = status.id.as_ref().map_or("?".to_owned(), PluginId::to_string);
        self.log.add(format!("manager {name} {:?}", status.state));
        if let (PluginState::Closed, Some(why)) = (status.state, &status.last_error) {
            self.log.add(format!("closed {name}: {why}"));
        }
    }
}
