//! Session of a plugin: a description of the runtime, and requests to the runtime.

use nri_api::{PluginId, proto::*};
use nri_wire::{CallError, RuntimeClient};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Handle of the session with a runtime. It is cheap to clone, and can be used outside of handlers.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    plugin: PluginId,
    client: OnceLock<RuntimeClient>,
    runtime: OnceLock<RuntimeInfo>,
}

/// Description of a runtime, as sent in `Configure`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Name of the runtime.
    pub name: String,
    /// Version of the runtime.
    pub version: String,
    /// NRI version that the runtime supports; empty for old runtimes.
    pub nri_version: String,
    /// Time limit for the registration of a plugin; 0 for old runtimes.
    pub registration_timeout: Duration,
    /// Time limit for the reply to an event; 0 for old runtimes.
    pub request_timeout: Duration,
}

impl Session {
    pub(crate) fn new(plugin: PluginId) -> Self {
        let inner = Inner { plugin, client: OnceLock::new(), runtime: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn set_client(&self, client: RuntimeClient) {
        self.inner.client.get_or_init(|| client);
    }

    pub(crate) fn set_runtime(&self, request: &ConfigureRequest) {
        let millis = |n: i64| Duration::from_millis(u64::try_from(n).unwrap_or(0));
        self.inner.runtime.get_or_init(|| RuntimeInfo {
            name: request.runtime_name.clone(),
            version: request.runtime_version.clone(),
            nri_version: request.NRI_version.clone(),
            registration_timeout: millis(request.registration_timeout),
            request_timeout: millis(request.request_timeout),
        });
    }

    /// Returns the identity that the plugin registered with. A runtime that launched the plugin
    /// uses the name of the plugin's file instead.
    pub fn plugin(&self) -> &PluginId {
        &self.inner.plugin
    }

    /// Returns the description of the runtime; `None` before `Configure`.
    pub fn runtime(&self) -> Option<&RuntimeInfo> {
        self.inner.runtime.get()
    }

    /// Requests updates and evictions of containers, and returns the updates that failed.
    ///
    /// This method can be called at any time, also within a handler. The request has no time limit.
    /// (Runtimes with upstream NRI ignore the evictions.)
    ///
    /// # Errors
    /// If the connection is closed, or the runtime refuses the whole request.
    pub async fn update_containers(
        &self,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Result<Vec<ContainerUpdate>, CallError> {
        let client = self.inner.client.get().ok_or(CallError::Closed(None))?;
        let request =
            UpdateContainersRequest { update: updates, evict: evictions, ..Default::default() };
        Ok(client.update_containers(None, &request).await?.failed)
    }
}
