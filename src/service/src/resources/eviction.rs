//! Evictions: stops containers on request of a plugin.

use crate::{
    host::process::Process, resources::manager::ResourceManager, state::container::Container,
};
use nri_api::proto::ContainerEviction;
use std::{sync::Arc, time::Duration};

/// Time between SIGTERM and SIGKILL, the same as the default of `docker stop`.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

impl ResourceManager {
    /// Stops the containers in the background: SIGTERM, then SIGKILL after `GRACE_PERIOD`.
    pub fn evict_all(&self, evictions: Vec<ContainerEviction>) {
        for eviction in evictions {
            if self.policy().shadow {
                let ContainerEviction { container_id: container, reason, .. } = eviction;
                tracing::info!(container, reason, "shadow: would be evicted");
                continue;
            }
            match self.registry.by_nri_id(&eviction.container_id) {
                Some(container) => drop(tokio::spawn(evict(container, eviction.reason))),
                None => tracing::warn!(
                    container = eviction.container_id,
                    "no such container, eviction skipped"
                ),
            }
        }
    }
}

async fn evict(container: Arc<Container>, reason: String) {
    let record = container.record();
    tracing::info!(container = record.key.id, reason, "evicting");
    for signal in ["TERM", "KILL"] {
        if let Err(error) = record.runtime.kill(&record.key.id, signal).await {
            tracing::warn!(container = record.key.id, %error, "eviction failed");
            return;
        }
        if let Some(process) = record.pid.and_then(Process::open)
            && tokio::time::timeout(GRACE_PERIOD, process.ended()).await.is_ok()
        {
            return;
        }
    }
}
