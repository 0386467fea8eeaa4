//! An end for want of work, where the configuration wants one: no containers, no pods, no external
//! plugins, nothing under way.
//!
//! It is an end like any other: whoever connects at that moment is answered, or starts the next
//! one. Launched plugins end with it.

use crate::service::Service;
use nri_adaptation::PluginOrigin;
use std::time::{Duration, Instant};

/// How often it is looked at most.
const LOOK: Duration = Duration::from_secs(5);
/// And at least, where the limit is short or there is none.
const SHORTEST: Duration = Duration::from_millis(20);

impl Service {
    /// Waits until nothing was there for as long as the configuration says.
    pub async fn idle(&self) {
        let mut since = None;
        loop {
            let limit = self.settings().config.idle_timeout;
            let begun = match limit {
                Some(_) if self.is_idle() => *since.get_or_insert_with(Instant::now),
                _ => {
                    since = None;
                    Instant::now()
                }
            };
            if let Some(limit) = limit.filter(|limit| since.is_some() && begun.elapsed() >= *limit)
            {
                tracing::info!(after = ?limit, "nothing to do");
                return;
            }
            tokio::time::sleep(limit.unwrap_or(LOOK).min(LOOK).max(SHORTEST)).await;
        }
    }

    fn is_idle(&self) -> bool {
        let is_external = |p: &nri_adaptation::PluginStatus| {
            p.origin == PluginOrigin::External && !p.state.is_gone()
        };
        self.registry.counts() == (0, 0)
            && !self.is_busy()
            && !self.adaptation.plugins().iter().any(is_external)
    }
}
