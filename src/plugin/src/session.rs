//! What handlers know of their runtime, and how they reach it.

use nri_api::{PluginId, proto::*};
use nri_wire::{CallError, RuntimeClient};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The connection to the runtime. Cheap to clone; may be kept and used outside of handlers.
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

/// What a runtime tells of itself in `Configure`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of NRI that it speaks; empty if it is older than the field.
    pub nri_version: String,
    /// How long it waits for a plugin to register; 0 if it is older than the field.
    pub registration_timeout: Duration,
    /// How long it waits for the answer to an event; 0 if it is older than the field.
    pub request_timeout: Duration,
}

impl Session {
    pub(crate) fn new(plugin: PluginId) -> Self {
        let inner = Inner { plugin, client: OnceLock::new(), runtime: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn connected(&self, client: RuntimeClient) {
        self.inner.client.get_or_init(|| client);
    }

    pub(crate) fn configured(&self, request: &ConfigureRequest) {
        let millis = |n: i64| Duration::from_millis(u64::try_from(n).unwrap_or(0));
        self.inner.runtime.get_or_init(|| RuntimeInfo {
            name: request.runtime_name.clone(),
            version: request.runtime_version.clone(),
            nri_version: request.NRI_version.clone(),
            registration_timeout: millis(request.registration_timeout),
            request_timeout: millis(request.request_timeout),
        });
    }

    /// As whom the plugin registered. A runtime that launched it may know it by another name.
    pub fn plugin(&self) -> &PluginId {
        &self.inner.plugin
    }

    /// What the runtime is, once it has configured the plugin.
    pub fn runtime(&self) -> Option<&RuntimeInfo> {
        self.inner.runtime.get()
    }

    /// Asks for updates and evictions at any time, also from within a handler, and gives back the
    /// updates that failed. Waits as long as the runtime takes. (Upstream's runtimes ignore
    /// evictions here.)
    ///
    /// # Errors
    /// If the connection ended, or the runtime refuses all of it.
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
