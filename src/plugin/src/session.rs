//! Session of a plugin: a description of the runtime, and requests to the runtime.

use crate::{Mistake, Update, reply::build_updates};
use nri_api::{PluginId, proto::*};
use nri_wire::{CallError, RuntimeClient};
use std::{
    fmt,
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
    runtime_end: OnceLock<RequestTarget>,
    runtime: OnceLock<RuntimeInfo>,
}

/// What handles the requests of a plugin.
pub(crate) enum RequestTarget {
    /// The runtime at the other end of the connection.
    Runtime(RuntimeClient),
    /// A function of a test, in the plugin's process.
    Test(Box<dyn Fn(UpdateContainersRequest) -> UpdateContainersResponse + Send + Sync>),
}

impl fmt::Debug for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runtime(_) => "Runtime",
            Self::Test(_) => "Test",
        })
    }
}

/// Error of a request of the plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request was not sent, because of a mistake in it.
    #[error(transparent)]
    Mistake(#[from] Mistake),
    /// The connection is closed, or the runtime refused the request.
    #[error(transparent)]
    Call(#[from] CallError),
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
        let inner = Inner { plugin, runtime_end: OnceLock::new(), runtime: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn set_target(&self, target: RequestTarget) {
        self.inner.runtime_end.get_or_init(|| target);
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
    /// If an update has a mistake, the connection is closed, or the runtime refuses the whole
    /// request.
    pub async fn update_containers(
        &self,
        updates: Vec<Update>,
        evictions: Vec<ContainerEviction>,
    ) -> Result<Vec<ContainerUpdate>, RequestError> {
        let request = UpdateContainersRequest {
            update: build_updates(updates)?,
            evict: evictions,
            ..Default::default()
        };
        match self.inner.runtime_end.get() {
            None => Err(CallError::Closed(None).into()),
            Some(RequestTarget::Runtime(client)) => {
                Ok(client.update_containers(None, &request).await?.failed)
            }
            Some(RequestTarget::Test(handle)) => Ok(handle(request).failed),
        }
    }
}
