//! The plugin's service: hands each call of the protocol to the guest.
//!
//! Messages are passed on as they are, with fields that this version does not know. An error of the
//! guest is the reply; any other failure ends the process without a reply, as the crash of any
//! other plugin does, and the runtime launches it again.

use crate::error::Error;
use crate::functions::{CONFIGURE, Function, SHUTDOWN, STATE_CHANGE, SYNCHRONIZE, handled_events};
use crate::guest::{Guest, GuestReply};
use async_trait::async_trait;
use nri_api::EventMask;
use nri_api::proto::*;
use nri_wire::ttrpc::{self, Code};
use nri_wire::{Context, status};
use protobuf::Message;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::spawn_blocking;

/// Time limit of a call that has none: that of upstream NRI.
const DEFAULT_LIMIT: Duration = Duration::from_secs(2);

/// Time by which a call may exceed the runtime's time limit: the runtime then counts a timeout, and
/// not a lost connection.
const MARGIN: Duration = Duration::from_millis(200);

/// A guest as a ttrpc service.
pub(crate) struct GuestService {
    /// `None` after the guest has failed.
    guest: Arc<Mutex<Option<Guest>>>,
    exports: BTreeSet<Function>,
    /// Receives the failure after which the guest cannot be called any more.
    failed: UnboundedSender<Error>,
    /// Received parts of a split `Synchronize`.
    parts: Mutex<SynchronizeRequest>,
}

impl GuestService {
    pub(crate) fn new(guest: Guest, failed: UnboundedSender<Error>) -> Self {
        let exports = guest.exports();
        let guest = Arc::new(Mutex::new(Some(guest)));
        Self { guest, exports, failed, parts: Mutex::default() }
    }

    /// Has the guest handle a request.
    async fn call<Q: Message, R: Message>(
        &self,
        context: &Context,
        function: Function,
        request: &Q,
    ) -> ttrpc::Result<R> {
        let limit = match u64::try_from(context.timeout_nano) {
            Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos),
            _ => DEFAULT_LIMIT,
        };
        if !self.exports.contains(function) {
            return Err(status(Code::UNIMPLEMENTED, format!("{function} is not exported")));
        }
        let request = request.write_to_bytes().map_err(|e| status(Code::INTERNAL, e))?;
        let guest = self.guest.clone();
        let called = spawn_blocking(move || {
            let mut guest = lock(&guest);
            let called = guest.as_mut()?.call(function, &request, limit + MARGIN);
            if called.is_err() {
                *guest = None;
            }
            Some(called)
        });
        let failure = match called.await {
            Ok(Some(Ok(GuestReply::Refused(text)))) => return Err(status(Code::UNKNOWN, text)),
            Ok(Some(Ok(GuestReply::Message(bytes)))) => match R::parse_from_bytes(&bytes) {
                Ok(reply) => return Ok(reply),
                Err(source) => Some(Error::Malformed { function, source }),
            },
            Ok(Some(Err(failure))) => Some(failure),
            // An earlier call has failed.
            Ok(None) => None,
            Err(_) => Some(Error::Panic(function)),
        };
        // Fails only if the process ends already.
        let _ = failure.map(|failure| self.failed.send(failure));
        std::future::pending().await
    }
}

/// A guest whose call panicked ends with the process, so that poisoning does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Implements the methods whose messages pass unchanged.
macro_rules! service {
    ($($method:ident $function:literal $request:ident => $reply:ident;)*) => {
        #[async_trait]
        impl nri_wire::Plugin for GuestService {
            /// Subscribes to events that the module exports a function for: a guest that returns
            /// no events subscribes to all.
            async fn configure(
                &self,
                context: &Context,
                request: ConfigureRequest,
            ) -> ttrpc::Result<ConfigureResponse> {
                let mut reply = ConfigureResponse::new();
                if self.exports.contains(CONFIGURE) {
                    reply = self.call(context, CONFIGURE, &request).await?;
                }
                let handled = handled_events(&self.exports);
                reply.events = subscription(reply.events, handled);
                Ok(reply)
            }

            /// Hands the parts of a split request to the guest as one request: modules that
            /// return an empty reply would otherwise count as too old to be sent parts.
            async fn synchronize(
                &self,
                context: &Context,
                request: SynchronizeRequest,
            ) -> ttrpc::Result<SynchronizeResponse> {
                let more = request.more;
                let joined = {
                    let mut parts = lock(&self.parts);
                    parts.pods.extend(request.pods);
                    parts.containers.extend(request.containers);
                    if more { None } else { Some(std::mem::take(&mut *parts)) }
                };
                let Some(joined) = joined else {
                    return Ok(SynchronizeResponse { more, ..Default::default() });
                };
                if !self.exports.contains(SYNCHRONIZE) {
                    return Ok(SynchronizeResponse::new());
                }
                self.call(context, SYNCHRONIZE, &joined).await
            }

            async fn shutdown(&self, context: &Context, request: Empty) -> ttrpc::Result<Empty> {
                self.call(context, SHUTDOWN, &request).await
            }

            async fn state_change(
                &self,
                context: &Context,
                request: StateChangeEvent,
            ) -> ttrpc::Result<Empty> {
                self.call(context, STATE_CHANGE, &request).await
            }

            $(
                async fn $method(
                    &self,
                    context: &Context,
                    request: $request,
                ) -> ttrpc::Result<$reply> {
                    self.call(context, $function, &request).await
                }
            )*
        }
    };
}

service! {
    run_pod_sandbox "plugin_run_pod_sandbox" RunPodSandboxRequest => RunPodSandboxResponse;
    update_pod_sandbox "plugin_update_pod_sandbox"
        UpdatePodSandboxRequest => UpdatePodSandboxResponse;
    post_update_pod_sandbox "plugin_post_update_pod_sandbox"
        PostUpdatePodSandboxRequest => PostUpdatePodSandboxResponse;
    stop_pod_sandbox "plugin_stop_pod_sandbox" StopPodSandboxRequest => StopPodSandboxResponse;
    remove_pod_sandbox "plugin_remove_pod_sandbox"
        RemovePodSandboxRequest => RemovePodSandboxResponse;
    create_container "plugin_create_container" CreateContainerRequest => CreateContainerResponse;
    post_create_container "plugin_post_create_container"
        PostCreateContainerRequest => PostCreateContainerResponse;
    start_container "plugin_start_container" StartContainerRequest => StartContainerResponse;
    post_start_container "plugin_post_start_container"
        PostStartContainerRequest => PostStartContainerResponse;
    update_container "plugin_update_container" UpdateContainerRequest => UpdateContainerResponse;
    post_update_container "plugin_post_update_container"
        PostUpdateContainerRequest => PostUpdateContainerResponse;
    stop_container "plugin_stop_container" StopContainerRequest => StopContainerResponse;
    remove_container "plugin_remove_container" RemoveContainerRequest => RemoveContainerResponse;
    validate_container_adjustment "plugin_validate_container_adjustment"
        ValidateContainerAdjustmentRequest => ValidateContainerAdjustmentResponse;
}

/// Returns the subscription of a guest that asked for these events. Events that it names are kept,
/// for the runtime to refuse those that it does not know.
fn subscription(asked: i32, handled: EventMask) -> i32 {
    if asked == 0 { handled.bits() } else { asked }
}
