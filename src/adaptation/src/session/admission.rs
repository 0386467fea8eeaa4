//! Admission of a configured plugin to the pipeline, its synchronization, and the end of its
//! session.

use nri_api::PluginId;
use nri_merge::UpdatesMerge;
use nri_wire::{PLUGIN_SERVICE, RuntimeEnd, max_message};
use std::sync::Arc;
use tracing::{debug, warn};

use crate::core::Core;
use crate::error::SessionError;
use crate::events::reply_log::log_updates;
use crate::launch::process::Process;
use crate::manager::Snapshot;
use crate::order::pipeline::AdmissionTickets;
use crate::plugin::handle::Plugin;
use crate::plugin::status::{PluginState, SessionEnd};
use crate::session::handshake::{ConfiguredPlugin, OnEnd, wait_disconnected};
use crate::session::synchronize;

impl Core {
    /// Adds the plugin to the pipeline and synchronizes it. Requests that enter the pipeline
    /// meanwhile are delivered to the plugin afterwards.
    ///
    /// The admission completes even if the caller's future is dropped: a plugin that is admitted
    /// halfway would receive events of containers that it does not know.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        configured: ConfiguredPlugin,
    ) -> Result<PluginId, SessionError> {
        let core = self.clone();
        let admitted = tokio::spawn(async move { core.admit_uncancelled(configured).await });
        admitted.await.unwrap_or_else(|e| Err(SessionError::Unregistered(e.to_string())))
    }

    async fn admit_uncancelled(
        self: Arc<Self>,
        configured: ConfiguredPlugin,
    ) -> Result<PluginId, SessionError> {
        let ConfiguredPlugin { plugin, end, service, process, on_end } = configured;
        let AdmissionTickets { queue, commit } = self.pipeline.add(&plugin);
        // A reload during the registration did not update this plugin's policy, since the plugin
        // was not in the pipeline. Later reloads find the plugin there, so the policy is read again
        // until no reload has replaced the configuration meanwhile.
        loop {
            let config = self.config();
            plugin.policy.set(config.policy(&plugin.id));
            if Arc::ptr_eq(&config, &self.config()) {
                break;
            }
        }
        // Requests that enter from now on wait for this permit.
        let permit = queue.permit().await;
        self.spawn_session_task(plugin.clone(), end, process, on_end);
        let result = async {
            let snapshot = {
                let _commit = commit.permit().await;
                self.manager.snapshot().await
            };
            if self.is_shutting_down() {
                return Err(SessionError::ShuttingDown);
            }
            service.accept_updates(&plugin);
            self.synchronize(&plugin, snapshot).await
        };
        match result.await {
            Ok(()) => {
                let status = plugin.record.set(|s| {
                    s.state = PluginState::Active;
                    s.clone()
                });
                self.notify_changed(status);
                drop(permit);
                Ok(plugin.id.clone())
            }
            Err(e) => {
                plugin.close(e.to_string());
                Err(e)
            }
        }
    }

    /// Sends the snapshot to the plugin, and performs the updates of its reply.
    async fn synchronize(&self, plugin: &Plugin, snapshot: Snapshot) -> Result<(), SessionError> {
        let limit = max_message(PLUGIN_SERVICE, "Synchronize", Some(plugin.timeout));
        let parts = synchronize::split(snapshot, limit)?;
        let count = parts.len();
        let mut updates = Vec::new();
        for part in parts {
            let call = plugin.session.synchronize(plugin.timeout, &part);
            let reply = call.await.map_err(SessionError::Synchronize)?;
            if part.more && (!reply.more || !reply.update.is_empty()) {
                return Err(SessionError::CannotSplit { parts: count });
            }
            updates = reply.update;
        }
        if updates.is_empty() {
            return Ok(());
        }
        log_updates(&plugin.id, &updates, &[]);
        plugin.counters.record_requests(updates.len(), 0);
        plugin.reply_check().check_updates(None, &updates, &[]).map_err(|denied| {
            plugin.counters.record_denial();
            SessionError::Denied(denied)
        })?;
        let mut merge = UpdatesMerge::new();
        merge.reply(&plugin.id, updates).map_err(SessionError::Updates)?;
        let outcome = merge.finish();
        // The permit of the plugin's queue is still held, so that updates in replies to later
        // events are performed after these.
        let (updates, evictions) = (outcome.updates, outcome.evictions);
        let failed = self.manager.update_containers(&plugin.id, updates, evictions).await.len()
            + outcome.failed.len();
        if failed > 0 {
            warn!(plugin = %plugin.id, failed, "updates in the reply to Synchronize failed");
        }
        Ok(())
    }

    /// Spawns the task that waits for the end of the session, disconnects the plugin and stops its
    /// program.
    fn spawn_session_task(
        self: &Arc<Self>,
        plugin: Arc<Plugin>,
        end: RuntimeEnd,
        process: Option<Process>,
        on_end: Option<OnEnd>,
    ) {
        let start = tokio::time::Instant::now();
        let core = self.clone();
        self.spawn(async move {
            // An external plugin that disconnects may have been stopped on purpose.
            let is_external = process.is_none();
            let has_left =
                || is_external && end.trunk().close_reason().is_some_and(|c| c.is_clean());
            let why = tokio::select! {
                biased;
                why = plugin.closed() => match end.trunk().close_reason() {
                    // A call failed at the disconnection, whose cause explains more.
                    Some(_) => wait_disconnected(&end, process.as_ref()).await,
                    None => why,
                },
                why = wait_disconnected(&end, process.as_ref()) => why,
            };
            let failed = plugin.retired().is_none() && !core.is_shutting_down() && !has_left();
            let why = plugin.retired().map_or(why, str::to_owned);
            plugin.close(why.clone());
            end.close();
            core.pipeline.remove(&plugin);
            let mut last_output = None;
            if let Some(process) = process {
                process.stop();
                let how = process.exited().await;
                debug!(plugin = %plugin.id, "the program {how}");
                last_output = process.last_output();
            }
            let active = start.elapsed();
            let end = SessionEnd { why, failed, last_output };
            core.notify_changed(core.registry.close(&plugin.record, end));
            if let Some(on_end) = on_end.filter(|_| plugin.retired().is_none()) {
                on_end(active);
            }
            plugin.set_cleaned_up();
        });
    }
}
