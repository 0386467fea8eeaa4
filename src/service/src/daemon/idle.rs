//! Ends `nrid` when it has been idle for `idle_timeout`: without containers, pods, external plugins
//! and requests in progress.
//!
//! The end is clean: a caller that connects meanwhile is served, or starts the next `nrid`.
//! Launched plugins end with `nrid`.

use crate::service::Service;
use nri_adaptation::PluginOrigin;
use std::time::{Duration, Instant};

/// Longest interval between two checks: `nrid` may end this much later than configured.
const MAX_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest interval between two checks, for a short timeout.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

impl Service {
    /// Waits until `nrid` has been idle for `idle_timeout`.
    pub async fn idle(&self) {
        let mut since = None;
        loop {
            let limit = self.settings().config.idle_timeout;
            let start = match limit {
                Some(_) if self.is_idle() => *since.get_or_insert_with(Instant::now),
                _ => {
                    since = None;
                    Instant::now()
                }
            };
            if let Some(limit) = limit.filter(|limit| since.is_some() && start.elapsed() >= *limit)
            {
                tracing::info!(after = ?limit, "idle timeout reached");
                return;
            }
            tokio::time::sleep(limit.unwrap_or(MAX_INTERVAL).min(MAX_INTERVAL).max(MIN_INTERVAL))
                .await;
        }
    }

    fn is_idle(&self) -> bool {
        let is_external = |p: &nri_adaptation::PluginStatus| {
            p.origin == PluginOrigin::External && !p.state.has_ended()
        };
        self.registry.is_empty()
            && !self.is_busy()
            && !self.plugins.adaptation.plugins().iter().any(is_external)
    }
}
