//! [`DryRunManager`], which shows plugins the real containers, and performs nothing.

use crate::{
    plugins::{effects::Effects, snapshot::snapshot},
    state::registry::Registry,
};
use async_trait::async_trait;
use nri_adaptation::{ContainerManager, Origin, Snapshot};
use nri_api::{
    PluginId,
    proto::{Container, ContainerEviction, ContainerUpdate, PodSandbox},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of lines that are kept of each plugin.
const MAX_LINES: usize = 100;

/// Shows plugins the containers of the records, and notes what they request and print.
pub(super) struct DryRunManager {
    containers: Arc<Registry>,
    /// Id of the container that is asked about, which plugins must not know already, and that of
    /// its pod if the pod starts with it.
    hidden: String,
    notes: Mutex<BTreeMap<String, PluginNotes>>,
}

/// What a plugin did besides its replies.
#[derive(Debug, Clone, Default)]
pub(super) struct PluginNotes {
    /// Requested updates and evictions, and why requests were refused.
    pub(super) requests: Vec<String>,
    /// The first lines that the plugin wrote.
    pub(super) output: Vec<String>,
}

impl DryRunManager {
    pub(super) fn new(containers: Arc<Registry>, hidden: String) -> Self {
        Self { containers, hidden, notes: Mutex::default() }
    }

    /// Returns the notes of all plugins.
    pub(super) fn notes(&self) -> BTreeMap<String, PluginNotes> {
        self.notes.lock().clone()
    }

    fn note(&self, plugin: &PluginId, note: impl FnOnce(&mut PluginNotes)) {
        let mut notes = self.notes.lock();
        note(notes.entry(plugin.to_string()).or_default());
    }
}

/// Adds a line, unless there are many.
fn add(lines: &mut Vec<String>, line: String) {
    if lines.len() < MAX_LINES {
        lines.push(line);
    }
}

#[async_trait]
impl ContainerManager for DryRunManager {
    async fn snapshot(&self) -> Snapshot {
        let Snapshot { mut pods, mut containers } = snapshot(&self.containers).await;
        containers.retain(|container| container.id != self.hidden);
        // A pod that has the id of its container has no other one.
        pods.retain(|pod| pod.id != self.hidden);
        Snapshot { pods, containers }
    }

    /// Notes the requests. They count as performed, so that the plugin goes on.
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let effects = Effects::of_plugin(plugin, &updates, &evictions);
        let updates = effects.described_updates();
        let updates = updates.map(|u| format!("update of {}: {}", u.container, u.fields));
        let evictions = effects.described_evictions();
        let evictions = evictions.map(|e| format!("eviction of {}: {}", e.container, e.reason));
        self.note(plugin, |notes| {
            updates.chain(evictions).for_each(|line| add(&mut notes.requests, line));
        });
        Vec::new()
    }

    fn origin(&self, id: &str) -> Origin {
        self.containers.origin(id)
    }

    fn find(&self, container: &str) -> Option<(PodSandbox, Container)> {
        self.containers.by_nri_id(container).map(|container| self.containers.messages(&container))
    }

    fn updates_refused(&self, plugin: &PluginId, reason: &str) {
        self.note(plugin, |notes| add(&mut notes.requests, format!("refused: {reason}")));
    }

    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        self.note(plugin, |notes| add(&mut notes.output, line.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::store::Store;

    #[tokio::test]
    async fn updates_and_evictions_are_noted_and_not_performed() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::read_only(dir.path()));
        let manager = DryRunManager::new(Arc::new(registry), "c1".into());
        assert_eq!(manager.snapshot().await, Snapshot::default());
        let plugin = PluginId::from_file_name("10-a").unwrap();
        let update = ContainerUpdate { container_id: "c2".into(), ..Default::default() };
        let eviction = ContainerEviction {
            container_id: "c3".into(),
            reason: "full".into(),
            ..Default::default()
        };
        // The container does not exist, so the update would fail if it were performed.
        let failed = manager.update_containers(&plugin, vec![update], vec![eviction]).await;
        assert!(failed.is_empty(), "{failed:?}");
        manager.updates_refused(&plugin, "not allowed");
        (0..2 * MAX_LINES).for_each(|_| manager.plugin_output(&plugin, "line"));
        let notes = manager.notes().remove("10-a").unwrap();
        let requests = ["update of c2: ", "eviction of c3: full", "refused: not allowed"];
        assert_eq!(notes.requests, requests);
        assert_eq!(notes.output.len(), MAX_LINES);
    }
}
