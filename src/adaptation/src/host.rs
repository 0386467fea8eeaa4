//! What the adaptation needs from whoever keeps the containers.
//!
//! The adaptation knows neither their storage nor how a resource is set. The host knows nothing of
//! sessions and order.

use async_trait::async_trait;
use nri_api::PluginId;
use nri_api::proto::{Container, ContainerEviction, ContainerUpdate, PodSandbox};

use crate::status::PluginStatus;

/// The keeper of pods and containers.
///
/// None of these may wait for a request that is in the line
/// ([`Adaptation::create_container`](crate::Adaptation::create_container) and the like), nor for a
/// lock that is held across one: the line waits for the host, so both would wait for ever. Take
/// per-container locks in the commit, not around the request.
#[async_trait]
pub trait ContainerManager: Send + Sync + 'static {
    /// The pods and containers as of now, for a plugin that registers. Containers that are stopped
    /// or of unknown state are left out.
    ///
    /// It is called at the commit station: no commit runs at the same time.
    async fn snapshot(&self) -> Snapshot;

    /// Performs what a plugin asked for outside the events: by `UpdateContainers`, at any time and
    /// also while the host commits a request, or in its answer to `Synchronize`. Returns the
    /// updates that failed.
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate>;

    /// A line that a launched plugin wrote to its standard output or error. It may block: it is
    /// called on a thread of its own, and lines that come meanwhile wait, or are left out if there
    /// are many.
    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        tracing::info!("{plugin}: {line}");
    }

    /// Tells that a plugin came, went or failed to come. Must not block.
    fn plugin_changed(&self, status: &PluginStatus) {
        let _ = status;
    }
}

/// What a plugin is synchronized with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The pods.
    pub pods: Vec<PodSandbox>,
    /// Their containers.
    pub containers: Vec<Container>,
}
