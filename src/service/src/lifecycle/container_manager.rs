//! Implements [`ContainerManager`] for the adaptation: the snapshot that synchronizes a new
//! plugin, unsolicited updates, evictions, and changes of a plugin's status.
//!
//! An unsolicited update may arrive at any time, also from inside an event. So it takes neither a
//! container lock nor a place in a queue: both are held while plugins are called.
//! `plugins/update.rs` makes it under the update lock of the container, which nothing holds that
//! waits for a plugin.

use crate::plugins::{effects::Effects, requests::PluginRequests, snapshot::snapshot};
use async_trait::async_trait;
use nri_adaptation::{
    ContainerManager, Origin, PluginOrigin, PluginState, PluginStatus, Snapshot, WithheldBy,
};
use nri_api::{
    PluginId,
    proto::{Container, ContainerEviction, ContainerUpdate, PodSandbox},
};
use nri_files::{AuditEvent, AuditLine};
use std::time::SystemTime;

#[async_trait]
impl ContainerManager for PluginRequests {
    async fn snapshot(&self) -> Snapshot {
        snapshot(&self.resources.registry).await
    }

    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let failed = self.commit(&Effects::of_plugin(plugin, &updates, &evictions)).await;
        failed.into_iter().map(|f| f.update).collect()
    }

    fn origin(&self, id: &str) -> Origin {
        self.resources.registry.origin(id)
    }

    fn find(&self, container: &str) -> Option<(PodSandbox, Container)> {
        let registry = &self.resources.registry;
        registry.by_nri_id(container).map(|container| registry.messages(&container))
    }

    fn updates_refused(&self, plugin: &PluginId, reason: &str) {
        let (plugin, request) = (plugin.to_string(), "plugin".to_owned());
        let (event, message) = (AuditEvent::Refusal, reason.to_owned());
        self.resources.audit.write(AuditLine {
            event,
            plugin,
            request,
            message,
            ..AuditLine::default()
        });
    }

    fn updates_withheld(
        &self,
        plugin: &PluginId,
        by: WithheldBy,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) {
        self.audit_withheld(plugin, by, updates, evictions);
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let plugin =
            status.id.as_ref().map_or_else(|| "(not registered)".to_owned(), ToString::to_string);
        let PluginStatus { state, pid, last_error: error, history, .. } = status;
        let (restarts, last_output) = (history.restarts, history.last_output.as_ref());
        let error = error.as_ref();
        // A connection that ends without a registration may be a probe of the socket.
        let is_plugin = status.id.is_some() || matches!(status.origin, PluginOrigin::Launched(_));
        match state {
            PluginState::Closed if status.failed && is_plugin => {
                tracing::warn!(plugin, pid, error, last_output, restarts, "plugin ended");
            }
            PluginState::Restarting => {
                let now = SystemTime::now();
                let pause = status.next_launch.and_then(|next| next.duration_since(now).ok());
                let pause = pause.map(|pause| format!("{:.1} s", pause.as_secs_f64()));
                tracing::warn!(
                    plugin,
                    error,
                    restarts,
                    pause,
                    "plugin is launched again after a pause"
                );
            }
            _ if is_plugin => {
                tracing::info!(plugin, ?state, pid, error, "plugin state changed");
            }
            // Anybody who may connect can cause these lines.
            _ => {
                let text = error.map_or("", String::as_str);
                if let Some(not_logged) = self.unregistered_lines.next(text) {
                    tracing::info!(plugin, ?state, pid, error, not_logged, "plugin state changed");
                }
            }
        }
        if is_plugin {
            self.audit_plugin(status);
        }
        self.external.update(status);
    }
}

impl PluginRequests {
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
        self.resources.audit.write(AuditLine { event, plugin, message, ..AuditLine::default() });
    }
}
