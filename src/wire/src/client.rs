//! Calls to the peer: a method per call of the protocol, with a timeout, and errors that tell what
//! happened.
//!
//! The generated clients of ttrpc are not used: they report a reply with a status they do not know
//! as a success, and find out that a request is too large only after it was encoded twice.

use crate::{
    CallError, Closed, Trunk,
    size::{self, PLUGIN_SERVICE, RUNTIME_SERVICE},
};
use nri_api::{MAX_MESSAGE, proto};
use protobuf::Message;
use std::time::Duration;
use tokio::time::Instant;
use ttrpc::Code;

/// Makes calls on one connection of a trunk.
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
        let begin = Instant::now();
        let late = || timeout.filter(|t| begin.elapsed() >= *t);
        let response = self.client.request(envelope).await.map_err(|e| self.explain(e, late()))?;
        if let Some(status) = response.status.as_ref().filter(|s| s.code.value() != 0) {
            // The library lets through codes that it does not know.
            return Err(CallError::from_status(status.code.value(), &status.message));
        }
        A::parse_from_bytes(&response.payload).map_err(|e| CallError::Malformed(e.to_string()))
    }

    /// `late` is the timeout if it has passed.
    fn explain(&self, error: ttrpc::Error, late: Option<Duration>) -> CallError {
        match (CallError::from(error), late) {
            // The peer saw the deadline pass too, and its answer came while we were about to see
            // it.
            (CallError::Status { code, .. }, Some(t)) if code == Code::DEADLINE_EXCEEDED as i32 => {
                CallError::Timeout(t)
            }
            (status @ CallError::Status { .. }, _) => status,
            (other, late) => match (self.trunk.close_reason(), late) {
                (Some(Closed::Ended(_)) | None, Some(t)) => CallError::Timeout(t),
                (Some(reason), _) => CallError::Closed(Some(reason)),
                // ttrpc's task for this connection has ended a moment ago.
                (None, None) if is_send_failure(&other) => CallError::Closed(None),
                (None, None) => other,
            },
        }
    }
}

fn is_send_failure(error: &CallError) -> bool {
    matches!(error, CallError::Malformed(text) if text.starts_with("reserve channel capacity failed"))
}

macro_rules! calls {
    ($(#[$doc:meta])* $client:ident: $service:expr;
     $($(#[$call_doc:meta])* $call:ident, $method:literal, $request:ident => $answer:ident;)*) => {
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
                ) -> Result<proto::$answer, CallError> {
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
    /// The runtime's side of the Plugin service. Clones share the connection.
    ///
    /// A call whose future is dropped, or that timed out, is forgotten: the peer may still carry it
    /// out, its late answer is dropped, and the connection remains usable.
    PluginClient: PLUGIN_SERVICE;
    /// Tells a registered plugin its configuration; the answer is its subscription.
    configure, "Configure", ConfigureRequest => ConfigureResponse;
    /// One part of the runtime's state; size it with [`max_message`](crate::max_message).
    synchronize, "Synchronize", SynchronizeRequest => SynchronizeResponse;
    /// Announces the end.
    shutdown, "Shutdown", Empty => Empty;
    /// A pod is being run.
    run_pod_sandbox, "RunPodSandbox", RunPodSandboxRequest => RunPodSandboxResponse;
    /// A pod's resources are being updated.
    update_pod_sandbox, "UpdatePodSandbox", UpdatePodSandboxRequest => UpdatePodSandboxResponse;
    /// A pod's resources were updated.
    post_update_pod_sandbox, "PostUpdatePodSandbox", PostUpdatePodSandboxRequest => PostUpdatePodSandboxResponse;
    /// A pod stopped.
    stop_pod_sandbox, "StopPodSandbox", StopPodSandboxRequest => StopPodSandboxResponse;
    /// A pod was removed.
    remove_pod_sandbox, "RemovePodSandbox", RemovePodSandboxRequest => RemovePodSandboxResponse;
    /// A container is being created; the answer may adjust it.
    create_container, "CreateContainer", CreateContainerRequest => CreateContainerResponse;
    /// A container was created.
    post_create_container, "PostCreateContainer", PostCreateContainerRequest => PostCreateContainerResponse;
    /// A container is being started.
    start_container, "StartContainer", StartContainerRequest => StartContainerResponse;
    /// A container was started.
    post_start_container, "PostStartContainer", PostStartContainerRequest => PostStartContainerResponse;
    /// A container's resources are being updated; the answer may change them.
    update_container, "UpdateContainer", UpdateContainerRequest => UpdateContainerResponse;
    /// A container's resources were updated.
    post_update_container, "PostUpdateContainer", PostUpdateContainerRequest => PostUpdateContainerResponse;
    /// A container stopped; the answer may update others.
    stop_container, "StopContainer", StopContainerRequest => StopContainerResponse;
    /// A container was removed.
    remove_container, "RemoveContainer", RemoveContainerRequest => RemoveContainerResponse;
    /// An event in the form that plugins before v0.12 know.
    state_change, "StateChange", StateChangeEvent => Empty;
    /// Asks for a verdict on all that the plugins want changed.
    validate_container_adjustment, "ValidateContainerAdjustment",
        ValidateContainerAdjustmentRequest => ValidateContainerAdjustmentResponse;
}

calls! {
    /// The plugin's side of the Runtime service. Clones share the connection.
    RuntimeClient: RUNTIME_SERVICE;
    /// Introduces the plugin; the first call of a session.
    register_plugin, "RegisterPlugin", RegisterPluginRequest => Empty;
    /// Asks for updates and evictions outside of any event; the answer lists the updates that
    /// failed.
    update_containers, "UpdateContainers", UpdateContainersRequest => UpdateContainersResponse;
}
