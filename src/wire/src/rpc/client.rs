//! Clients of the Plugin and the Runtime service: a method for each call of the protocol, with a
//! timeout.
//!
//! The clients that ttrpc generates are not used: they report a reply with an unknown status as a
//! success, and encode a request twice before they reject one that is too large.

use crate::error::CallError;
use crate::rpc::size::{self, PLUGIN_SERVICE, RUNTIME_SERVICE};
use crate::trunk::closed::Closed;
use crate::trunk::handle::Trunk;
use nri_api::{MAX_MESSAGE, proto};
use protobuf::Message;
use std::time::Duration;
use tokio::time::Instant;
use ttrpc::Code;

/// Client of one service over one connection.
#[derive(Clone)]
struct Caller {
    service: &'static str,
    client: ttrpc::r#async::Client,
    trunk: Trunk,
}

impl Caller {
    async fn call<Q: Message, A: Message>(
        &self,
        method: &'static str,
        timeout: Option<Duration>,
        request: &Q,
    ) -> Result<A, CallError> {
        let size = size::request_size(self.service, method, timeout, size::message_size(request));
        if size > MAX_MESSAGE {
            return Err(CallError::TooLarge { size });
        }
        let mut envelope = size::request(self.service, method, timeout);
        envelope.payload =
            request.write_to_bytes().map_err(|e| CallError::Malformed(e.to_string()))?;
        let start = Instant::now();
        let expired = || timeout.filter(|t| start.elapsed() >= *t);
        let response =
            self.client.request(envelope).await.map_err(|e| self.explain(e, expired()))?;
        if let Some(status) = response.status.as_ref().filter(|s| s.code.value() != 0) {
            // ttrpc reports unknown codes as a success.
            return Err(CallError::from_status(status.code.value(), &status.message));
        }
        A::parse_from_bytes(&response.payload).map_err(|e| CallError::Malformed(e.to_string()))
    }

    /// Returns the cause of a failed call. `expired` is the timeout if it has passed.
    fn explain(&self, error: ttrpc::Error, expired: Option<Duration>) -> CallError {
        match (CallError::from(error), expired) {
            // The peer detected the deadline first.
            (CallError::Status { code, .. }, Some(t)) if code == Code::DEADLINE_EXCEEDED as i32 => {
                CallError::Timeout(t)
            }
            (status @ CallError::Status { .. }, _) => status,
            (other, expired) => match (self.trunk.close_reason(), expired) {
                (Some(Closed::Ended(_)) | None, Some(t)) => CallError::Timeout(t),
                (Some(reason), _) => CallError::Closed(Some(reason)),
                // ttrpc's task for this connection has just ended.
                (None, None) if is_send_failure(&other) => CallError::Closed(None),
                (None, None) => other,
            },
        }
    }
}

/// Whether ttrpc could not pass the request to its task for the connection.
fn is_send_failure(error: &CallError) -> bool {
    const NO_CHANNEL: &str = "reserve channel capacity failed";
    matches!(error, CallError::Malformed(text) if text.starts_with(NO_CHANNEL))
}

macro_rules! calls {
    ($(#[$doc:meta])* $client:ident: $service:expr;
     $($(#[$call_doc:meta])* $call:ident, $method:literal, $request:ident => $reply:ident;)*) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $client(Caller);

        impl $client {
            pub(crate) fn new(client: ttrpc::r#async::Client, trunk: Trunk) -> Self {
                Self(Caller { service: $service, client, trunk })
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
                    self.0.call($method, timeout.into(), request).await
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
