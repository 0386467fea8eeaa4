//! Implements [`ContainerManager`] for the adaptation: the snapshot that synchronizes a new
//! plugin, unsolicited updates, and evictions.
//!
//! An unsolicited update may arrive at any time, also from inside an event. So it takes neither a
//! container lock nor a place in a queue: both are held while plugins are called. `apply.rs` makes
//! it under the update lock of the container, which nothing holds that waits for a plugin.

use crate::{
    resources::{apply::UpdateSource, eviction::EvictionSource, manager::ResourceManager},
    state::{container::Container, pod::PodStatus, record::Record, status::ContainerStatus},
};
use async_trait::async_trait;
use nri_adaptation::{ContainerManager, PluginOrigin, PluginState, PluginStatus, Snapshot};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate, PodSandbox},
};
use nri_files::{AuditEvent, AuditLine};
use std::{collections::HashSet, time::SystemTime};

#[async_trait]
impl ContainerManager for ResourceManager {
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut pods = HashSet::new();
        let mut add = |snapshot: &mut Snapshot, pod: PodSandbox| {
            if pods.insert(pod.id.clone()) {
                snapshot.pods.push(pod);
            }
        };
        for container in self.registry.by_age() {
            self.observe_run(&container).await;
            let record = container.record();
            if record.status == ContainerStatus::Stopped || self.is_announced_later(&record) {
                continue;
            }
            let (pod, message) = self.registry.messages(&container);
            add(&mut snapshot, pod);
            if !record.sandbox {
                snapshot.containers.push(message);
            }
        }
        // Add the pods without containers, if plugins were notified of them.
        for pod in self.registry.pods.all() {
            if pod.status == PodStatus::Running {
                add(&mut snapshot, pod.sandbox.get());
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
        let failed = self.update_all(updates, UpdateSource::Plugin(plugin)).await;
        self.evict_all(evictions, EvictionSource::Plugin(plugin));
        failed.into_iter().map(|f| f.update).collect()
    }

    fn updates_refused(&self, plugin: &PluginId, reason: &str) {
        let (plugin, request) = (plugin.to_string(), "plugin".to_owned());
        let (event, message) = (AuditEvent::Refusal, reason.to_owned());
        self.audit.write(AuditLine { event, plugin, request, message, ..AuditLine::default() });
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let name =
            status.id.as_ref().map_or_else(|| "(not registered)".to_owned(), ToString::to_string);
        let PluginStatus { state, pid, last_error: error, history, .. } = status;
        let (restarts, last_output) = (history.restarts, history.last_output.as_ref());
        let error = error.as_ref();
        // A connection that ends without a registration may be a probe of the socket.
        let is_plugin = status.id.is_some() || matches!(status.origin, PluginOrigin::Launched(_));
        match state {
            PluginState::Closed if status.failed && is_plugin => {
                tracing::warn!(plugin = name, pid, error, last_output, restarts, "plugin ended");
            }
            PluginState::Restarting => {
                let now = SystemTime::now();
                let pause = status.next_launch.and_then(|next| next.duration_since(now).ok());
                let pause = pause.map(|pause| format!("{:.1} s", pause.as_secs_f64()));
                tracing::warn!(
                    plugin = name,
                    error,
                    restarts,
                    pause,
                    "plugin is launched again after a pause"
                );
            }
            _ if is_plugin => {
                tracing::info!(plugin = name, ?state, pid, error, "plugin state changed");
            }
            // Anybody who may connect can cause these lines.
            _ => {
                let text = error.map_or("", String::as_str);
                if let Some(not_logged) = self.unregistered_lines.next(text) {
                    tracing::info!(
                        plugin = name,
                        ?state,
                        pid,
                        error,
                        not_logged,
                        "plugin state changed"
                    );
                }
            }
        }
        if is_plugin {
            self.audit_plugin(status);
        }
        self.external_plugins.update(status);
    }
}

impl ResourceManager {
    /// Writes to the audit log that a plugin was registered, or that its session has ended.
    fn audit_plugin(&self, status: &PluginStatus) {
        let event = match status.state {
            PluginState::Active => AuditEvent::PluginRegistered,
            // Before `Restarting`, a plugin is in this state, too.
            PluginState::Closed => AuditEvent::PluginClosed,
            _ => return,
        };
        let plugin = status.id.as_ref().map(ToString::to_string).unwrap_or_default();
        let message = status.last_error.clone().filter(|_| status.state.has_ended());
        let message = message.unwrap_or_default();
        self.audit.write(AuditLine { event, plugin, message, ..AuditLine::default() });
    }

    /// Whether the record is of a sandbox that has not started. Plugins will receive the pod of
    /// such a sandbox with RunPodSandbox. If the snapshot also had the pod, plugins would receive
    /// the pod twice.
    fn is_announced_later(&self, record: &Record) -> bool {
        let pod = self.registry.pods.get(&record.pod_id);
        let is_announced = pod.is_none_or(|pod| pod.status != PodStatus::New);
        record.sandbox && record.status < ContainerStatus::Running && !is_announced
    }

    /// Reads the state of a container from the runtime if the container was created with `run` and
    /// without our hook, since nothing then reports the container's start.
    async fn observe_run(&self, container: &Container) {
        let record = container.record();
        if !record.by_run || record.hooked || record.pid.is_some() {
            return;
        }
        if let Ok(state) = record.runtime.state(&record.key.id).await {
            self.registry.change(container, |r| r.observe(&state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        external_plugins::ExternalPlugins,
        pod::{PodKind, PodRecord},
        registry::Registry,
        store::Store,
    };
    use nri_api::Packed;
    use nri_config::Config;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_snapshot_has_the_pods_that_were_announced_and_not_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        for (id, status) in [
            ("b", PodStatus::Running),
            ("a", PodStatus::Running),
            ("stopped", PodStatus::Stopped),
            ("new", PodStatus::New),
        ] {
            let sandbox = PodSandbox { id: id.to_owned(), ..Default::default() };
            let sandbox = Packed::new(&sandbox);
            registry.pods.set(PodRecord { sandbox, kind: PodKind::SingleContainer, status });
        }
        let external = Arc::new(ExternalPlugins::load(dir.path()));
        let manager = ResourceManager::new(Arc::new(registry), external, &Config::default());
        let snapshot = manager.snapshot().await;
        assert_eq!(snapshot.pods.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
