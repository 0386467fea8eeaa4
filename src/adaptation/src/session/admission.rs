//! Admission of a configured plugin to the pipeline, its synchronization, and the end of its
//! session.

use nri_api::PluginId;
use nri_api::proto::ContainerUpdate;
use nri_merge::UpdatesMerge;
use nri_wire::{CallError, PLUGIN_SERVICE, RuntimeEnd, max_message};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tracing::{debug, error, warn};

use crate::core::Core;
use crate::error::SessionError;
use crate::events::reply_log::log_updates;
use crate::events::withhold::{shown, withhold_updates};
use crate::launch::process::Process;
use crate::manager::Snapshot;
use crate::order::pipeline::AdmissionTickets;
use crate::plugin::handle::Plugin;
use crate::plugin::queue::QueuePermit;
use crate::plugin::registrant::ProcessName;
use crate::plugin::status::{PluginHistory, PluginState, SessionEnd, SynchronizationProgress};
use crate::session::handshake::{ConfiguredPlugin, OnEnd, wait_disconnected};
use crate::session::synchronize;

/// Limit of synchronizations of one session. A further one follows only if a reply came so late
/// that requests have passed the plugin, and containers have changed since.
const MAX_SYNCHRONIZATIONS: u32 = 5;

impl Core {
    /// Adds the plugin to the pipeline and synchronizes it. Requests that enter the pipeline
    /// meanwhile are delivered to the plugin afterwards; those that have waited for a reply as long
    /// as for one to a request proceed without the plugin.
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

    /// Like [`Core::admit`], but returns as soon as no request waits for the plugin any more, which
    /// may still be synchronized then.
    pub(crate) async fn admit_launched(
        self: &Arc<Self>,
        configured: ConfiguredPlugin,
    ) -> Result<PluginId, SessionError> {
        let plugin = configured.plugin.clone();
        tokio::select! {
            biased;
            result = self.admit(configured) => result,
            () = plugin.late() => Ok(plugin.id.clone()),
        }
    }

    async fn admit_uncancelled(
        self: Arc<Self>,
        configured: ConfiguredPlugin,
    ) -> Result<PluginId, SessionError> {
        let ConfiguredPlugin { plugin, end, service, process, on_end } = configured;
        let added = self.pipeline.add(&plugin);
        self.registry.notify();
        self.spawn_session_task(plugin.clone(), end, process, on_end);
        let AdmissionTickets { queue, commit } = added.inspect_err(|refused| {
            plugin.record.set_replacement_refused(&plugin.id);
            plugin.close(refused.to_string());
        })?;
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
        // Requests that enter from now on wait for this permit. If the plugin is to replace another
        // session, the requests that entered before have passed that session then.
        let mut permit = Some(queue.permit().await);
        let result = async {
            let mut commit = commit;
            let mut known = None;
            for _ in 0..MAX_SYNCHRONIZATIONS {
                let snapshot = {
                    let _commit = commit.permit().await;
                    self.manager.snapshot().await
                };
                let snapshot = shown(&*self.manager, &plugin.policy.get(), snapshot);
                let snapshot = self.without_large(&plugin, snapshot);
                if self.is_shutting_down() {
                    return Err(SessionError::ShuttingDown);
                }
                service.accept_updates(&plugin);
                if known.as_ref() != Some(&snapshot) {
                    known = Some(self.synchronize(&plugin, snapshot, &mut permit).await?);
                }
                if plugin.is_closed() {
                    return Err(SessionError::Synchronize(CallError::Closed(None)));
                }
                if permit.is_some() {
                    return Ok(());
                }
                // Requests have passed the plugin meanwhile.
                let again = self.pipeline.readmit(&plugin);
                permit = Some(again.queue.permit().await);
                commit = again.commit;
            }
            Err(SessionError::Outdated { times: MAX_SYNCHRONIZATIONS })
        };
        let ended = || SessionError::Synchronize(CallError::Closed(None));
        let replace = || self.pipeline.replace_with(&plugin).ok_or_else(ended);
        match result.await.and_then(|()| replace()) {
            Ok(replaced) => {
                if replaced.is_empty() {
                    self.continue_history(&plugin);
                }
                self.retire_replaced(replaced, &plugin);
                let status = plugin.record.set(|s| {
                    s.state = PluginState::Active;
                    s.synchronization = None;
                    s.clone()
                });
                self.notify_changed(status);
                drop(permit);
                Ok(plugin.id.clone())
            }
            Err(e) => {
                if matches!(e, SessionError::Outdated { .. }) {
                    self.pipeline.count_replacement(&plugin.id);
                }
                plugin.close(e.to_string());
                Err(e)
            }
        }
    }

    /// Continues the history of a session that ended after this one had registered.
    fn continue_history(&self, plugin: &Plugin) {
        if plugin.registrant.is_external {
            let history = self.registry.remove_closed(&plugin.id);
            if history != PluginHistory::default() {
                plugin.record.set(|status| status.history = history);
            }
        }
    }

    /// Ends sessions that a newer one has replaced, once all requests that entered before have
    /// passed them and have committed. The newer session continues their history.
    fn retire_replaced(self: &Arc<Self>, replaced: Vec<Arc<Plugin>>, newer: &Plugin) {
        for plugin in replaced {
            let by = ProcessName(newer.registrant.pid);
            let why = format!("replaced by a newer session of the plugin ({by})");
            let mut history = plugin.record.read(|status| status.history.clone());
            history.restarts = history.restarts.saturating_add(1);
            history.last_exit = Some(why.clone());
            newer.record.set(|status| status.history = history);
            plugin.set_replaced(why);
            let core = self.clone();
            self.spawn(async move {
                core.pipeline.wait_drained(&plugin).await;
                let grace = plugin.timeout.min(core.config().stop_grace);
                plugin.retire("replaced", grace).await;
            });
        }
    }

    /// Leaves out of a snapshot what no message can hold: one such container must not keep the
    /// plugin away from all others.
    fn without_large(&self, plugin: &Plugin, mut snapshot: Snapshot) -> Snapshot {
        let limit =
            max_message(PLUGIN_SERVICE, "Synchronize", Some(self.time_to_synchronize(plugin)));
        for large in synchronize::take_large(&mut snapshot, limit) {
            error!(plugin = %plugin.id, "the plugin is not synchronized with it: {large}");
            let error = format!("not synchronized with {large}");
            plugin.record.set(|status| status.last_error = Some(error));
        }
        snapshot
    }

    /// Returns the time limit of each message of a synchronization.
    fn time_to_synchronize(&self, plugin: &Plugin) -> Duration {
        self.config().synchronization_timeout.max(plugin.timeout)
    }

    /// Sends the snapshot to the plugin, performs the updates of its reply, and returns the
    /// snapshot. Gives `permit` back when a reply takes longer than one to a request may take.
    async fn synchronize(
        &self,
        plugin: &Plugin,
        snapshot: Snapshot,
        permit: &mut Option<QueuePermit>,
    ) -> Result<Snapshot, SessionError> {
        let timeout = self.time_to_synchronize(plugin);
        let limit = max_message(PLUGIN_SERVICE, "Synchronize", Some(timeout));
        let total = snapshot.containers.len();
        let mut progress = SynchronizationProgress { start: SystemTime::now(), sent: 0, total };
        let parts = synchronize::split(snapshot, limit);
        let mut updates = Vec::new();
        for part in &parts {
            progress.sent += part.containers.len();
            plugin.record.set(|status| status.synchronization = Some(progress));
            let mut call = pin!(plugin.session.synchronize(timeout, part));
            let in_time = tokio::time::timeout(plugin.timeout, &mut call).await;
            let reply = match in_time {
                Ok(reply) => reply,
                Err(_) => {
                    if permit.take().is_some() {
                        let plugin = &plugin.id;
                        warn!(%plugin, ?timeout, "slow to synchronize, requests skip the plugin");
                    }
                    plugin.set_late();
                    call.await
                }
            };
            let reply = reply.map_err(SessionError::Synchronize)?;
            if part.more && (!reply.more || !reply.update.is_empty()) {
                return Err(SessionError::CannotSplit { parts: parts.len() });
            }
            updates = reply.update;
        }
        if !updates.is_empty() {
            self.perform_updates(plugin, updates).await?;
        }
        Ok(synchronize::join(parts))
    }

    /// Performs the updates in the reply to `Synchronize`.
    async fn perform_updates(
        &self,
        plugin: &Plugin,
        mut updates: Vec<ContainerUpdate>,
    ) -> Result<(), SessionError> {
        log_updates(&plugin.id, &updates, &[]);
        plugin.counters.record_requests(updates.len(), 0);
        plugin.reply_check().check_updates(None, &updates, &[]).map_err(|denied| {
            plugin.counters.record_denial();
            SessionError::Denied(denied)
        })?;
        let policy = plugin.policy.get();
        let rules = (&plugin.id, &*policy);
        withhold_updates(&*self.manager, rules, None, &mut updates, &mut vec![]);
        let mut merge = UpdatesMerge::new();
        merge.reply(&plugin.id, updates).map_err(SessionError::Updates)?;
        let outcome = merge.finish();
        // No request is delivered to the plugin yet, so that updates in replies to later events are
        // performed after these.
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
            let on_end = on_end.filter(|_| failed && core.should_restart(&plugin.id));
            plugin.record.set_restarts(on_end.is_some());
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
            if plugin.is_replaced() {
                // The record of the newer session continues its history.
                core.registry.remove(plugin.serial);
            }
            match on_end.filter(|_| plugin.retired().is_none()) {
                Some(on_end) => on_end(active),
                None => plugin.record.set_restarts(false),
            }
            plugin.set_cleaned_up();
        });
    }
}
