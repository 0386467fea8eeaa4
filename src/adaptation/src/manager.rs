//! Interface to the manager of pods and containers.
//!
//! The adaptation knows neither how containers are recorded nor how their resources are applied;
//! the manager knows nothing of plugin sessions and their order.

use async_trait::async_trait;
use nri_api::PluginId;
use nri_api::proto::{Container, ContainerEviction, ContainerUpdate, PodSandbox};

use crate::plugin::status::PluginStatus;
use crate::policy::plugin_policy::WithheldBy;
use crate::policy::scope::Origin;

/// Manager of pods and containers, called by the adaptation.
///
/// No method may wait for a request in the pipeline
/// ([`Adaptation::create_container`](crate::Adaptation::create_container) and the like), nor for a
/// lock that is held during such a request: the pipeline waits for the manager, so both would wait
/// forever. A caller that holds a container lock while it makes a request therefore must not take
/// that lock in these methods.
#[async_trait]
pub trait ContainerManager: Send + Sync + 'static {
    /// Returns the current pods and containers, for a plugin that registers. Containers that are
    /// stopped or of unknown state are left out.
    ///
    /// The adaptation holds the permit of the commit queue during this call, so that no commit runs
    /// at the same time.
    async fn snapshot(&self) -> Snapshot;

    /// Performs updates and evictions that a plugin requests outside of events: in its reply to
    /// `Synchronize`, or by `UpdateContainers`. May be called at any time, even during a commit.
    /// Returns the updates that failed.
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate>;

    /// Returns the origin of a pod or container that exists, for policies that are limited to some.
    /// Must not block.
    fn origin(&self, id: &str) -> Origin {
        let _ = id;
        Origin::default()
    }

    /// Returns a container that exists, and its pod, for policies that are limited to some: whether
    /// a plugin may update or evict it. `None`: no such plugin may. Must not block.
    fn find(&self, container: &str) -> Option<(PodSandbox, Container)> {
        let _ = container;
        None
    }

    /// Receives the reason why a request of a plugin for updates and evictions was refused as a
    /// whole: its policy does not permit it, or it is too large. Must not block.
    fn updates_refused(&self, plugin: &PluginId, reason: &str) {
        let _ = (plugin, reason);
    }

    /// Receives updates and evictions that a plugin requested, on its own or in a reply, without
    /// effect: its policy observes the plugin, or their containers are outside its scope. The log
    /// has them already. Must not block.
    fn updates_withheld(
        &self,
        plugin: &PluginId,
        by: WithheldBy,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) {
        let _ = (plugin, by, updates, evictions);
    }

    /// Receives a line that a launched plugin wrote to its standard output or error.
    ///
    /// The call may block: it is made from a separate thread. Further lines are queued meanwhile,
    /// and dropped when the queue is full.
    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        let (level, text) = leveled(line);
        match level {
            PluginLevel::Error => tracing::error!("{plugin}: {text}"),
            PluginLevel::Warn => tracing::warn!("{plugin}: {text}"),
            PluginLevel::Info => tracing::info!("{plugin}: {text}"),
        }
    }

    /// Receives the new status of a plugin that connected, disconnected or failed. Must not block.
    fn plugin_changed(&self, status: &PluginStatus) {
        let _ = status;
    }
}

/// Level of a line that a plugin wrote. What a plugin writes is never less than information: its
/// own configuration decides what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PluginLevel {
    Error,
    Warn,
    Info,
}

/// Returns the level with which a plugin wrote a line, and the line without it, and without the
/// time if that comes first: both are in the log already. Knows the forms of the SDK (`INFO text`)
/// and of logrus (`time="…" level=info msg=text`). Other lines, and those for debugging, stay as
/// they are.
fn leveled(line: &str) -> (PluginLevel, &str) {
    let trimmed = line.trim_start();
    let logrus = trimmed.strip_prefix("time=\"").and_then(|rest| rest.split_once("\" "));
    let (word, text) = match logrus.and_then(|(_, rest)| rest.strip_prefix("level=")) {
        Some(rest) => rest.split_once(' ').unwrap_or_default(),
        None => trimmed.split_once(' ').unwrap_or_default(),
    };
    let level = match word {
        "ERROR" => PluginLevel::Error,
        "WARN" => PluginLevel::Warn,
        "INFO" => PluginLevel::Info,
        "error" | "fatal" | "panic" if logrus.is_some() => PluginLevel::Error,
        "warning" if logrus.is_some() => PluginLevel::Warn,
        "info" if logrus.is_some() => PluginLevel::Info,
        _ => return (PluginLevel::Info, line),
    };
    (level, text)
}

/// Returns the text of a line that a plugin wrote as a warning or an error.
pub(crate) fn warning(line: &str) -> Option<String> {
    let (level, text) = leveled(line);
    (level != PluginLevel::Info).then(|| text.trim().to_owned())
}

/// Pods and containers that a plugin is synchronized with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The pods.
    pub pods: Vec<PodSandbox>,
    /// The containers of the pods.
    pub containers: Vec<Container>,
}
