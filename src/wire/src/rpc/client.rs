//! Clients of the Plugin and the Runtime service: a method for each call of the protocol, with a
//! timeout.
//!
//! A request is written to the socket by the task that makes the call, and its reply is passed to
//! that task by the trunk's reader: no other task is woken.

use crate::error::CallError;
use crate::rpc::calls::Calls;
use crate::rpc::envelope::{self, Method};
use crate::rpc::size::{self, PLUGIN_SERVICE, Payload, RUNTIME_SERVICE};
use crate::rpc::trace::TraceContext;
use crate::trunk::frame::ConnId;
use crate::trunk::handle::Trunk;
use nri_api::{MAX_MESSAGE, proto};
use protobuf::Message;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use ttrpc::Code;

/// Client of one service over one connection.
#[derive(Clone)]
struct Caller {
    service: &'static str,
    conn: ConnId,
    calls: Arc<Calls>,
    trunk: Trunk,
}

impl Caller {
    async fn call<A: Message>(
        &self,
        method: &'static str,
        timeout: Option<Duration>,
        request: &(impl Payload + ?Sized),
        trace: Option<&TraceContext>,
    ) -> Result<A, CallError> {
        let response = self.request(method, timeout, request, trace).await?;
        A::parse_from_bytes(envelope::payload(&response)?)
            .map_err(|e| CallError::Malformed(e.to_string()))
    }

    /// Sends a request, and returns the response with its envelope.
    async fn request(
        &self,
        method: &'static str,
        timeout: Option<Duration>,
        payload: &(impl Payload + ?Sized),
        trace: Option<&TraceContext>,
    ) -> Result<Vec<u8>, CallError> {
        let mut size = size::request_size(self.service, method, timeout, payload.size());
        // No request fails because of its trace context.
        let trace = trace.filter(|trace| size.saturating_add(trace.size()) <= MAX_MESSAGE);
        size += trace.map_or(0, TraceContext::size);
        if size > MAX_MESSAGE {
            return Err(CallError::TooLarge { size });
        }
        let mut call = self.calls.start();
        let method = Method { service: self.service, method, timeout, trace };
        let frames = envelope::request(self.conn, call.stream, size, method, payload)?;
        let closed = |reason| CallError::Closed(reason);
        let exchange = async {
            let sent = self.trunk.state().send(self.conn, &frames).await;
            sent.map_err(|reason| closed(Some(reason)))?;
            drop(frames);
            call.response().await.ok_or_else(|| closed(self.trunk.close_reason()))
        };
        let Some(timeout) = timeout else { return exchange.await };
        let start = Instant::now();
        let response = tokio::time::timeout(timeout, exchange).await;
        let response = response.map_err(|_| CallError::Timeout(timeout))??;
        match envelope::payload(&response) {
            // The peer detected the deadline first.
            Err(CallError::Status { code, .. })
                if code == Code::DEADLINE_EXCEEDED as i32 && start.elapsed() >= timeout =>
            {
                Err(CallError::Timeout(timeout))
            }
            _ => Ok(response),
        }
    }
}

macro_rules! calls {
    ($(#[$doc:meta])* $client:ident: $service:expr;
     $($(#[$call_doc:meta])* $call:ident, $method:literal, $request:ident => $reply:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $client(Caller);

        impl $client {
            /// Whether the session has ended, so that every call fails.
            pub fn is_closed(&self) -> bool {
                self.0.trunk.close_reason().is_some()
            }

            pub(crate) fn new(conn: ConnId, calls: Arc<Calls>, trunk: Trunk) -> Self {
                Self(Caller { service: $service, conn, calls, trunk })
            }

            /// Makes a call of the service by its name. The request may be encoded already, so that
            /// it is encoded once for several peers. The peer receives the trace context as
            /// metadata.
            ///
            /// # Errors
            /// See [`CallError`].
            pub async fn call<A: Message>(
                &self,
                method: &'static str,
                timeout: impl Into<Option<Duration>>,
                request: &(impl Payload + ?Sized),
                trace: Option<&TraceContext>,
            ) -> Result<A, CallError> {
                self.0.call(method, timeout.into(), request, trace).await
            }

            $(
                $(#[$call_doc])*
                ///
                /// # Errors
                /// See [`CallError`].
                pub async fn $call(
                    &self,
                    timeout: impl Into<Option<Duration>>,
                    request: &proto::$request,
                ) -> Result<proto::$reply, CallError> {
                    self.0.call($method, timeout.into(), request, None).await
                }
            )*
        }

        impl std::fmt::Debug for $client {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($client)).finish_non_exhaustive()
            }
        }
    };
}

calls! {
    /// Client of the Plugin service, used by the runtime. Clones share the connection.
    ///
    /// After a timeout, or when the future of a call is dropped, the peer may still handle the
    /// call; its late reply is dropped, and the connection remains usable.
    PluginClient: PLUGIN_SERVICE;
    /// Configures a registered plugin; the reply is its subscription.
    configure, "Configure", ConfigureRequest => ConfigureResponse;
    /// Sends a part of the pods and containers, of at most [`max_message`](crate::max_message)
    /// bytes.
    synchronize, "Synchronize", SynchronizeRequest => SynchronizeResponse;
    /// Notifies the plugin of the runtime's shutdown.
    shutdown, "Shutdown", Empty => Empty;
    /// Notifies the plugin of the start of a pod.
    run_pod_sandbox, "RunPodSandbox", RunPodSandboxRequest => RunPodSandboxResponse;
    /// Notifies the plugin of an update of a pod's resources.
    update_pod_sandbox, "UpdatePodSandbox", UpdatePodSandboxRequest => UpdatePodSandboxResponse;
    /// Notifies the plugin that a pod's resources were updated.
    post_update_pod_sandbox, "PostUpdatePodSandbox",
        PostUpdatePodSandboxRequest => PostUpdatePodSandboxResponse;
    /// Notifies the plugin that a pod stopped.
    stop_pod_sandbox, "StopPodSandbox", StopPodSandboxRequest => StopPodSandboxResponse;
    /// Notifies the plugin that a pod was removed.
    remove_pod_sandbox, "RemovePodSandbox", RemovePodSandboxRequest => RemovePodSandboxResponse;
    /// Requests the adjustment of a container that is being created.
    create_container, "CreateContainer", CreateContainerRequest => CreateContainerResponse;
    /// Notifies the plugin that a container was created.
    post_create_container, "PostCreateContainer",
        PostCreateContainerRequest => PostCreateContainerResponse;
    /// Notifies the plugin of the start of a container.
    start_container, "StartContainer", StartContainerRequest => StartContainerResponse;
    /// Notifies the plugin that a container was started.
    post_start_container, "PostStartContainer",
        PostStartContainerRequest => PostStartContainerResponse;
    /// Requests changes of an update of a container's resources.
    update_container, "UpdateContainer", UpdateContainerRequest => UpdateContainerResponse;
    /// Notifies the plugin that a container's resources were updated.
    post_update_container, "PostUpdateContainer",
        PostUpdateContainerRequest => PostUpdateContainerResponse;
    /// Notifies the plugin that a container stopped; the reply may update other containers.
    stop_container, "StopContainer", StopContainerRequest => StopContainerResponse;
    /// Notifies the plugin that a container was removed.
    remove_container, "RemoveContainer", RemoveContainerRequest => RemoveContainerResponse;
    /// Delivers an event in the form that plugins before NRI v0.12 support.
    state_change, "StateChange", StateChangeEvent => Empty;
    /// Requests the validation of the merged adjustment.
    validate_container_adjustment, "ValidateContainerAdjustment",
        ValidateContainerAdjustmentRequest => ValidateContainerAdjustmentResponse;
}

calls! {
    /// Client of the Runtime service, used by a plugin. Clones share the connection.
    RuntimeClient: RUNTIME_SERVICE;
    /// Registers the plugin; the first call of a session.
    register_plugin, "RegisterPlugin", RegisterPluginRequest => Empty;
    /// Requests updates and evictions outside of events; the reply lists the updates that failed.
    update_containers, "UpdateContainers", UpdateContainersRequest => UpdateContainersResponse;
}
