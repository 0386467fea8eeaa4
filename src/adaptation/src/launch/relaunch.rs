//! Relaunches that a creation waits for: a launched plugin whose session has ended is about to be
//! active again, and a container that is created meanwhile would miss it, or be refused.
//!
//! A creation waits before it enters the pipeline, so that it delays no other request. It waits for
//! one launch of each such plugin, at most as long as for a reply of that plugin. It does not wait
//! for an optional plugin that has never been configured: such a plugin is broken, not restarted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tracing::info;

use nri_api::PluginId;

use crate::config::AdaptationConfig;
use crate::core::Core;
use crate::plugin::handle::Plugin;
use crate::plugin::registry::LaunchedRecord;
use crate::plugin::status::PluginState;
use crate::policy::scope::Subject;

/// A relaunch that a creation waits for.
struct AwaitedRelaunch {
    plugin: PluginId,
    file: PathBuf,
    /// Session that has ended, or that was being launched, when the creation began.
    serial: u64,
    /// Whether that session was being launched.
    is_launch: bool,
    /// End of the wait.
    deadline: Instant,
}

impl Core {
    /// Whether a launched plugin that ends is launched again.
    pub(crate) fn should_restart(&self, plugin: &PluginId) -> bool {
        self.config().policy(plugin).restart && !self.is_shutting_down()
    }

    /// Lets the creation of `container` wait for plugins that are launched again within their
    /// request timeouts, unless what they request of it has no effect.
    pub(crate) async fn wait_for_relaunches(&self, container: &str, subject: Option<&Subject>) {
        let mut changes = self.registry.changes();
        let start = Instant::now();
        let mut awaited = self.relaunches(start, subject);
        if awaited.is_empty() {
            return;
        }
        let names: Vec<String> =
            awaited.iter().map(|relaunch| relaunch.plugin.to_string()).collect();
        let plugins = names.join(" ");
        loop {
            changes.mark_unchanged();
            let sessions = self.pipeline.plugins();
            let records = self.registry.launched_records();
            awaited.retain(|relaunch| relaunch.is_pending(&records, &sessions));
            let Some(deadline) = awaited.iter().map(|relaunch| relaunch.deadline).min() else {
                break;
            };
            tokio::select! {
                // The sender is a field of the registry, so the channel stays open.
                _ = tokio::time::timeout_at(deadline, changes.changed()) => {}
                // No plugin is launched again.
                () = self.wait_for_shutdown() => return,
            }
        }
        let waited = start.elapsed();
        info!(container, plugins, ?waited, "a request has waited for the restart of plugins");
    }

    /// Returns the relaunches that a creation waits for.
    fn relaunches(&self, now: Instant, subject: Option<&Subject>) -> Vec<AwaitedRelaunch> {
        let (config, sessions) = (self.config(), self.pipeline.plugins());
        let records = self.registry.launched_records();
        let relaunches = records.iter().filter_map(|record| {
            let session = sessions.iter().find(|session| session.serial == record.serial);
            let is_launch = is_awaited(record, session, &config)?;
            let policy = config.policy(&record.plugin);
            if policy.withholds(subject).is_some() {
                return None;
            }
            let timeout = config.timeout(&policy);
            let relaunch = AwaitedRelaunch {
                plugin: record.plugin.clone(),
                file: record.file.clone(),
                serial: record.serial,
                is_launch,
                deadline: now + timeout,
            };
            relaunch.is_pending(&records, &sessions).then_some(relaunch)
        });
        relaunches.collect()
    }
}

/// Whether a creation waits for this plugin: `Some(true)` if it is being launched again,
/// `Some(false)` if its session has ended and the next launch is to follow.
fn is_awaited(
    record: &LaunchedRecord,
    session: Option<&Arc<Plugin>>,
    config: &AdaptationConfig,
) -> Option<bool> {
    let policy = config.policy(&record.plugin);
    let has_ended = match session {
        Some(plugin) if plugin.is_connected() => return None,
        // It takes a moment until the end of a connection is noticed.
        Some(plugin) => policy.restart && plugin.retired().is_none(),
        None => record.restarts,
    };
    let is_restarting = record.state == PluginState::Restarting;
    if has_ended || is_restarting && (record.was_configured || policy.required) {
        return Some(false);
    }
    (session.is_none() && !record.state.has_ended() && record.is_restart).then_some(true)
}

impl AwaitedRelaunch {
    /// Whether the launch is still to come, or in progress, and begins before the deadline.
    fn is_pending(&self, records: &[LaunchedRecord], sessions: &[Arc<Plugin>]) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return false;
        }
        let of_file = records.iter().filter(|record| record.file == self.file);
        let Some(record) = of_file.max_by_key(|record| record.serial) else { return false };
        if record.serial == self.serial && !self.is_launch {
            return match record.state {
                PluginState::Closed => record.restarts,
                PluginState::Restarting => {
                    record.next_launch.is_some_and(|next| next <= SystemTime::now() + left)
                }
                _ => true,
            };
        }
        // A plugin in the pipeline receives the creation once it is synchronized.
        let is_in_pipeline = sessions.iter().any(|session| session.serial == record.serial);
        !record.state.has_ended() && !is_in_pipeline
    }
}
