//! Table of the protocol's events, and the calls that deliver them to a plugin.
//!
//! The table at the end covers every event of the protocol. It generates a method of
//! [`PluginSession`] and an [`EventRequest`] for each event. [`crate::plugin::handle`] makes the
//! calls, limits their time and handles their failures.

use async_trait::async_trait;
use nri_api::proto::*;
use nri_wire::{CallError, PluginClient};
use protobuf::{Message, MessageDyn, MessageField};
use std::time::Duration;

/// Result of a call.
pub(crate) type CallResult<T> = Result<T, CallError>;

/// A request of the protocol that delivers an event.
pub(crate) trait EventRequest: Message + Sized {
    /// Reply of the plugin.
    type Reply: MessageDyn + Send;
    /// Event that the request delivers, and that plugins subscribe to.
    const EVENT: Event;

    /// Sends the request by its dedicated call.
    fn send(
        &self,
        session: &dyn PluginSession,
        timeout: Duration,
    ) -> impl Future<Output = CallResult<Self::Reply>> + Send;

    /// Returns the `StateChange` that delivers the event to old plugins, and the reply that the
    /// caller gets then; `None` for events that never had this form.
    fn state_change(&self) -> Option<(StateChangeEvent, Self::Reply)>;

    /// Returns the id of the container, or of the pod for an event of a pod.
    fn subject(&self) -> &str;
}

macro_rules! events {
    ($($event:ident $about:ident $form:ident: $method:ident($request:ident) -> $reply:ident;)*) => {
        /// Calls of a connected plugin, over a socket ([`PluginClient`]) or otherwise.
        ///
        /// Each call sends its timeout to the plugin; the caller enforces it too.
        #[async_trait]
        pub(crate) trait PluginSession: Send + Sync + 'static {
            async fn configure(
                &self,
                timeout: Duration,
                r: &ConfigureRequest,
            ) -> CallResult<ConfigureResponse>;
            async fn synchronize(
                &self,
                timeout: Duration,
                r: &SynchronizeRequest,
            ) -> CallResult<SynchronizeResponse>;
            async fn shutdown(&self, timeout: Duration) -> CallResult<Empty>;
            async fn state_change(
                &self,
                timeout: Duration,
                r: &StateChangeEvent,
            ) -> CallResult<Empty>;
            $(async fn $method(&self, timeout: Duration, r: &$request) -> CallResult<$reply>;)*
        }

        #[async_trait]
        impl PluginSession for PluginClient {
            async fn configure(
                &self,
                timeout: Duration,
                r: &ConfigureRequest,
            ) -> CallResult<ConfigureResponse> {
                PluginClient::configure(self, timeout, r).await
            }
            async fn synchronize(
                &self,
                timeout: Duration,
                r: &SynchronizeRequest,
            ) -> CallResult<SynchronizeResponse> {
                PluginClient::synchronize(self, timeout, r).await
            }
            async fn shutdown(&self, timeout: Duration) -> CallResult<Empty> {
                PluginClient::shutdown(self, timeout, &Empty::new()).await
            }
            async fn state_change(
                &self,
                timeout: Duration,
                r: &StateChangeEvent,
            ) -> CallResult<Empty> {
                PluginClient::state_change(self, timeout, r).await
            }
            $(async fn $method(&self, timeout: Duration, r: &$request) -> CallResult<$reply> {
                PluginClient::$method(self, timeout, r).await
            })*
        }

        $(impl EventRequest for $request {
            type Reply = $reply;
            const EVENT: Event = Event::$event;

            async fn send(
                &self,
                session: &dyn PluginSession,
                timeout: Duration,
            ) -> CallResult<$reply> {
                session.$method(timeout, self).await
            }

            fn state_change(&self) -> Option<(StateChangeEvent, $reply)> {
                events!(@form $form self.pod, events!(@container $about self))
                    .map(|(pod, container)| {
                        (state_change(Event::$event, pod, container), $reply::new())
                    })
            }

            fn subject(&self) -> &str {
                &self.$about.id
            }
        })*
    };
    (@container pod $self:ident) => { MessageField::none() };
    (@container container $self:ident) => { $self.container.clone() };
    (@form new $pod:expr, $container:expr) => {
        None::<(MessageField<PodSandbox>, MessageField<Container>)>
    };
    (@form old $pod:expr, $container:expr) => { Some(($pod.clone(), $container)) };
}

fn state_change(
    event: Event,
    pod: MessageField<PodSandbox>,
    container: MessageField<Container>,
) -> StateChangeEvent {
    StateChangeEvent { event: event.into(), pod, container, ..StateChangeEvent::default() }
}

// Columns: event, subject (pod or container), form, call. The form `old` is an event that old
// plugins receive as a StateChange; the form `new` is an event that was never sent as a
// StateChange.
events! {
    RUN_POD_SANDBOX pod old:
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
    UPDATE_POD_SANDBOX pod new:
        update_pod_sandbox(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse;
    POST_UPDATE_POD_SANDBOX pod old:
        post_update_pod_sandbox(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse;
    STOP_POD_SANDBOX pod old:
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
    REMOVE_POD_SANDBOX pod old:
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
    CREATE_CONTAINER container new:
        create_container(CreateContainerRequest) -> CreateContainerResponse;
    POST_CREATE_CONTAINER container old:
        post_create_container(PostCreateContainerRequest) -> PostCreateContainerResponse;
    START_CONTAINER container old:
        start_container(StartContainerRequest) -> StartContainerResponse;
    POST_START_CONTAINER container old:
        post_start_container(PostStartContainerRequest) -> PostStartContainerResponse;
    UPDATE_CONTAINER container new:
        update_container(UpdateContainerRequest) -> UpdateContainerResponse;
    POST_UPDATE_CONTAINER container old:
        post_update_container(PostUpdateContainerRequest) -> PostUpdateContainerResponse;
    STOP_CONTAINER container new:
        stop_container(StopContainerRequest) -> StopContainerResponse;
    REMOVE_CONTAINER container old:
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
    VALIDATE_CONTAINER_ADJUSTMENT container new:
        validate_container_adjustment(ValidateContainerAdjustmentRequest)
            -> ValidateContainerAdjustmentResponse;
}
