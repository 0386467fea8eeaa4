//! [`Nri`]: start, status and shutdown.

use async_trait::async_trait;
use nri_adaptation::{Adaptation, ContainerManager, PluginStatus, Snapshot};
use nri_api::PluginId;
use nri_api::proto::{Container, ContainerEviction, ContainerUpdate, PodSandbox};
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::RuntimeConfig;
use crate::error::Error;
use crate::handler::RuntimeHandler;
use crate::plugin::Plugin;
use crate::records::Records;
use crate::socket;

/// NRI of a runtime: its plugins, and the pods and containers that they know. Clones share one
/// state.
#[derive(Clone)]
pub struct Nri {
    pub(crate) adaptation: Adaptation,
    pub(crate) shared: Arc<Shared>,
    socket: Option<Arc<PathBuf>>,
}

/// What requests of the runtime and of plugins have in common.
pub(crate) struct Shared {
    pub(crate) records: Records,
    pub(crate) handler: Box<dyn RuntimeHandler>,
}

impl Nri {
    /// Launches the plugins of the plugin directory, and accepts external plugins. Returns when
    /// each launched plugin is active or has failed ([`Nri::plugins`] says which). `existing` are
    /// the pods and containers that the runtime has from before.
    ///
    /// Needs a tokio runtime with time and I/O, which must run until [`Nri::shutdown`].
    ///
    /// # Errors
    /// [`Error::RelativePath`], [`Error::Socket`], and [`Error::Refused`] if a required plugin of
    /// the plugin directory does not become active or the directory cannot be read.
    pub async fn start(
        config: RuntimeConfig,
        handler: impl RuntimeHandler,
        existing: Snapshot,
    ) -> Result<Self, Error> {
        config.check()?;
        let failed = |path: &PathBuf| {
            let path = path.clone();
            |source| Error::Socket { path, source }
        };
        // Before the plugins run, so that nothing has to be undone if the path is in use.
        let listener = match &config.socket {
            Some(path) => Some(socket::listen(path).map_err(failed(path))?),
            None => None,
        };
        let shared = Shared { records: Records::new(existing), handler: Box::new(handler) };
        let shared = Arc::new(shared);
        let started = Adaptation::start(config.to_adaptation(), shared.clone()).await;
        let (adaptation, outcomes) = started.inspect_err(|_| {
            // Best effort: the next start replaces a socket that no process listens on.
            let _ = config.socket.as_ref().map(std::fs::remove_file);
        })?;
        for outcome in outcomes {
            if let Err(error) = outcome.result {
                tracing::warn!(file = %outcome.path.display(), %error, "plugin was not launched");
            }
        }
        if let Some(listener) = listener {
            adaptation.serve(listener)?;
        }
        Ok(Self { adaptation, shared, socket: config.socket.map(Arc::new) })
    }

    /// Returns all plugins in call order, launched plugins that have ended included.
    pub fn plugins(&self) -> Vec<Plugin> {
        self.adaptation.plugins().iter().map(Plugin::of).collect()
    }

    /// Returns the pods and containers that have events, for the next [`Nri::start`].
    pub fn snapshot(&self) -> Snapshot {
        self.shared.records.all()
    }

    /// Returns a container as plugins see it.
    ///
    /// # Errors
    /// The container is unknown.
    pub fn container(&self, id: &str) -> Result<Container, Error> {
        self.shared.records.container(id).map(|(_, container)| container)
    }

    /// Changes what later events say of a container, such as its pid or exit code.
    ///
    /// # Errors
    /// The container is unknown.
    pub fn change_container(
        &self,
        id: &str,
        change: impl FnOnce(&mut Container),
    ) -> Result<(), Error> {
        self.shared.records.change_container(id, change)
    }

    /// Changes what later events say of a pod, such as its addresses.
    ///
    /// # Errors
    /// The pod is unknown.
    pub fn change_pod(&self, id: &str, change: impl FnOnce(&mut PodSandbox)) -> Result<(), Error> {
        self.shared.records.change_pod(id, change)
    }

    /// Ends all plugins that were launched, and disconnects the others. Later requests succeed
    /// without plugins.
    pub async fn shutdown(&self) {
        self.adaptation.shutdown().await;
        if let Some(path) = &self.socket {
            // Best effort: the next start replaces a socket that no process listens on.
            let _ = std::fs::remove_file(path.as_path());
        }
    }
}

#[async_trait]
impl ContainerManager for Shared {
    async fn snapshot(&self) -> Snapshot {
        self.records.alive()
    }

    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        self.perform_requests(plugin, updates, evictions).await
    }

    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        self.handler.plugin_output(plugin, line);
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        self.handler.plugin_changed(&Plugin::of(status));
    }
}
