//! What a plugin may call: registration, once, and updates outside of events, once it is
//! synchronized.

use async_trait::async_trait;
use nri_api::proto::{
    Empty, RegisterPluginRequest, UpdateContainersRequest, UpdateContainersResponse,
};
use nri_api::{InvalidPlugin, PluginId};
use nri_wire::ttrpc::{self, Code};
use nri_wire::{Context, Runtime, status};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use crate::ContainerManager;
use crate::permissions::Permit;
use crate::plugin::Policy;

/// The runtime as one plugin sees it.
pub(crate) struct Service {
    host: Arc<dyn ContainerManager>,
    /// A launched plugin keeps the identity of its file, whatever it registers as.
    fixed: Option<PluginId>,
    registration: Mutex<Option<oneshot::Sender<Registration>>>,
    /// Set once the plugin may send updates.
    open: OnceLock<(PluginId, Policy)>,
}

/// More than any node has containers; a message has room for two million, each of which takes a
/// hundred times its bytes here.
const MOST_UPDATES: usize = 16384;

/// Characters of a version that are remembered.
const LONGEST_VERSION: usize = 64;

/// How a plugin registered: identity and NRI version.
pub(crate) type Registration = Result<(PluginId, String), InvalidPlugin>;

impl Service {
    /// The service, and where the registration will arrive.
    pub(crate) fn new(
        host: Arc<dyn ContainerManager>,
        fixed: Option<PluginId>,
    ) -> (Arc<Self>, oneshot::Receiver<Registration>) {
        let (sender, receiver) = oneshot::channel();
        let registration = Mutex::new(Some(sender));
        (Arc::new(Self { host, fixed, registration, open: OnceLock::new() }), receiver)
    }

    /// Begins to take updates, also while the plugin handles `Synchronize`.
    pub(crate) fn open(&self, id: PluginId, policy: Policy) {
        self.open.get_or_init(|| (id, policy));
    }
}

#[async_trait]
impl Runtime for Service {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        let once = self.registration.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(registration) = once else {
            return Err(status(Code::FAILED_PRECONDITION, "a plugin registers once in a session"));
        };
        let asked = PluginId::new(&request.plugin_idx, &request.plugin_name);
        let id = match &self.fixed {
            Some(fixed) => {
                if asked.as_ref().ok() != Some(fixed) {
                    debug!(plugin = %fixed, index = request.plugin_idx, name = request.plugin_name, "keeps the identity of its file");
                }
                Ok(fixed.clone())
            }
            None => asked,
        };
        let answer = match &id {
            Ok(_) => Ok(Empty::new()),
            Err(e) => Err(status(Code::INVALID_ARGUMENT, e)),
        };
        // Nobody waits any more when the registration came too late; the connection is about to be
        // closed then.
        let _ = registration
            .send(id.map(|id| (id, request.NRI_version.chars().take(LONGEST_VERSION).collect())));
        answer
    }

    async fn update_containers(
        &self,
        _: &Context,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        let Some((id, policy)) = self.open.get() else {
            return Err(status(
                Code::FAILED_PRECONDITION,
                "updates are taken once the plugin is being synchronized",
            ));
        };
        let asked = request.update.len() + request.evict.len();
        if asked > MOST_UPDATES {
            let said = format!(
                "{asked} updates and evictions in one request are more than {MOST_UPDATES}"
            );
            return Err(status(Code::INVALID_ARGUMENT, said));
        }
        let permit = Permit { plugin: id, policy: policy.get() };
        if let Err(denied) = permit.updates(None, &request.update, &request.evict) {
            warn!("{denied}");
            return Err(status(Code::PERMISSION_DENIED, denied));
        }
        let failed = self.host.update_containers(id, request.update, request.evict).await;
        if !failed.is_empty() {
            warn!(plugin = %id, failed = failed.len(), "updates of containers failed");
        }
        Ok(UpdateContainersResponse { failed, ..Default::default() })
    }
}
