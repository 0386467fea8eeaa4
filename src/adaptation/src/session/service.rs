//! The `Runtime` service for one plugin: registration, and updates outside of events once the
//! plugin is being synchronized.

use async_trait::async_trait;
use nri_api::PluginId;
use nri_api::proto::{
    Empty, RegisterPluginRequest, UpdateContainersRequest, UpdateContainersResponse,
};
use nri_wire::ttrpc::{self, Code};
use nri_wire::{Context, Runtime, TraceContext, status};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use crate::error::SessionError;
use crate::events::reply_log::log_updates;
use crate::events::withhold::withhold_updates;
use crate::manager::ContainerManager;
use crate::plugin::handle::Plugin;
use crate::plugin::statistics::PluginCounters;
use crate::plugin::trace::traced;
use crate::policy::plugin_policy::SharedPolicy;
use crate::policy::reply_check::ReplyCheck;

/// Runtime service of one session.
pub(crate) struct RuntimeService {
    manager: Arc<dyn ContainerManager>,
    /// Identity of a launched plugin, from its file name. It replaces the name that the plugin
    /// registers with. `None` for an external plugin.
    launched_as: Option<PluginId>,
    /// Checks whether the plugin may register under a name.
    check_name: NameCheck,
    registration: Mutex<Option<oneshot::Sender<Registration>>>,
    /// Set once the plugin may request updates.
    accepts_updates: OnceLock<Requester>,
}

/// Limit of updates and evictions in one request: far more than a node has containers. A message
/// could hold two million small updates, and each takes a hundred times its size in memory.
const MAX_UPDATES: usize = 16384;

/// Limit of a plugin's NRI version in characters, since it is stored and logged; the rest is cut.
const MAX_VERSION: usize = 64;

/// A plugin that may request updates.
struct Requester {
    id: PluginId,
    policy: SharedPolicy,
    counters: Arc<PluginCounters>,
    /// Whether a newer session has replaced that of the plugin.
    replaced: Arc<AtomicBool>,
}

/// Identity and NRI version that a plugin registered with.
pub(crate) type Registration = Result<(PluginId, String), SessionError>;

/// Check whether a plugin may register under a name.
pub(crate) type NameCheck = Box<dyn Fn(&PluginId) -> Result<(), SessionError> + Send + Sync>;

impl RuntimeService {
    /// Creates the service, and the channel that receives the registration.
    pub(crate) fn new(
        manager: Arc<dyn ContainerManager>,
        launched_as: Option<PluginId>,
        check_name: NameCheck,
    ) -> (Arc<Self>, oneshot::Receiver<Registration>) {
        let (sender, receiver) = oneshot::channel();
        let registration = Mutex::new(Some(sender));
        let accepts_updates = OnceLock::new();
        let service = Self { manager, launched_as, check_name, registration, accepts_updates };
        (Arc::new(service), receiver)
    }

    /// Accepts `UpdateContainers` from now on. Called before `Synchronize` is sent, since the
    /// plugin may request updates while it handles that call.
    pub(crate) fn accept_updates(&self, plugin: &Plugin) {
        self.accepts_updates.get_or_init(|| Requester {
            id: plugin.id.clone(),
            policy: plugin.policy.clone(),
            counters: plugin.counters.clone(),
            replaced: plugin.replaced(),
        });
    }
}

#[async_trait]
impl Runtime for RuntimeService {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        let sender = self.registration.lock().take();
        let Some(registration) = sender else {
            return Err(status(Code::FAILED_PRECONDITION, "the plugin has registered already"));
        };
        let requested = PluginId::new(&request.plugin_idx, &request.plugin_name);
        let identity = match &self.launched_as {
            Some(id) => {
                if requested.as_ref().ok() != Some(id) {
                    let (index, name) = (&request.plugin_idx, &request.plugin_name);
                    debug!(plugin = %id, index, name, "registered name ignored, file name kept");
                }
                Ok(id.clone())
            }
            None => requested,
        };
        let checked =
            identity.map_err(SessionError::from).and_then(|id| (self.check_name)(&id).map(|()| id));
        let reply = match &checked {
            Ok(_) => Ok(Empty::new()),
            Err(e @ SessionError::Name { .. }) => Err(status(Code::PERMISSION_DENIED, e)),
            Err(e @ SessionError::Peer(_)) => Err(status(Code::RESOURCE_EXHAUSTED, e)),
            Err(e @ SessionError::Replacement(_)) => Err(status(Code::ALREADY_EXISTS, e)),
            Err(e) => Err(status(Code::INVALID_ARGUMENT, e)),
        };
        let version = request.NRI_version.chars().take(MAX_VERSION).collect();
        // The receiver was dropped if the registration timed out; the connection is closed then.
        let _ = registration.send(checked.map(|id| (id, version)));
        reply
    }

    async fn update_containers(
        &self,
        context: &Context,
        mut request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        let Some(Requester { id, policy, counters, replaced }) = self.accepts_updates.get() else {
            return Err(status(
                Code::FAILED_PRECONDITION,
                "updates are accepted once the plugin is being synchronized",
            ));
        };
        if replaced.load(Ordering::Relaxed) {
            let message = "a newer session of the plugin has replaced this one";
            return Err(status(Code::FAILED_PRECONDITION, message));
        }
        let requested = request.update.len() + request.evict.len();
        if requested > MAX_UPDATES {
            let message = format!(
                "{requested} updates and evictions in one request exceed the limit of {MAX_UPDATES}"
            );
            self.manager.updates_refused(id, &message);
            return Err(status(Code::INVALID_ARGUMENT, message));
        }
        let check = ReplyCheck { plugin: id, policy: policy.get() };
        if let Err(denied) = check.check_updates(None, &request.update, &request.evict) {
            counters.record_denial();
            warn!("{denied}");
            self.manager.updates_refused(id, &denied.to_string());
            return Err(status(Code::PERMISSION_DENIED, denied));
        }
        counters.record_requests(request.update.len(), request.evict.len());
        log_updates(id, &request.update, &request.evict);
        let (policy, updates) = (policy.get(), &mut request.update);
        let (manager, rules) = (&*self.manager, (id, &*policy));
        let others = withhold_updates(manager, rules, None, updates, &mut request.evict);
        // As in reply to a request about containers that do not exist.
        let mut failed = others.updates;
        // The manager logs the updates that failed.
        let trace = Arc::new(TraceContext::of_metadata(&context.metadata).into());
        let update = self.manager.update_containers(id, request.update, request.evict);
        failed.extend(traced(trace, update).await);
        Ok(UpdateContainersResponse { failed, ..Default::default() })
    }
}
