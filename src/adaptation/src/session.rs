//! The calls to a plugin, whatever carries them, and which of them are events.
//!
//! When a call is made, how long it may take and what its failure means is decided elsewhere
//! ([`crate::plugin`]). The table at the end is the whole of the protocol's events: what it
//! generates is a method of [`PluginSession`] and an [`EventRequest`] for each.

use async_trait::async_trait;
use nri_api::proto::*;
use nri_wire::{CallError, PluginClient};
use protobuf::{Message, MessageDyn, MessageField};
use std::time::Duration;

/// A request that is an event, and knows how it is sent.
pub(crate) trait EventRequest: Message + Sized {
    /// What the plugin answers.
    type Reply: MessageDyn + Send;
    /// The bit of the subscription.
    const EVENT: Event;

    /// Sends it by its own call.
    fn send(
        &self,
        session: &dyn PluginSession,
        timeout: Duration,
    ) -> impl Future<Output = Result<Self::Reply, CallError>> + Send;

    /// Its old form, and the reply that stands for the answer to that, where there is one.
    fn state_change(&self) -> Option<(StateChangeEvent, Self::Reply)>;

    /// The id of the container, or else the pod, that it is about.
    fn subject(&self) -> &str;
}

macro_rules! events {
    ($($event:ident $method:ident($request:ident) -> $reply:ident $about:ident $form:ident;)*) => {
        /// A plugin to be called: over a socket ([`PluginClient`]) or otherwise.
        ///
        /// The timeout is what the plugin is told; the caller enforces it too.
        #[async_trait]
        pub(crate) trait PluginSession: Send + Sync + 'static {
            async fn configure(&self, timeout: Duration, r: &ConfigureRequest) -> Result<ConfigureResponse, CallError>;
            async fn synchronize(&self, timeout: Duration, r: &SynchronizeRequest) -> Result<SynchronizeResponse, CallError>;
            async fn shutdown(&self, timeout: Duration) -> Result<Empty, CallError>;
            async fn state_change(&self, timeout: Duration, r: &StateChangeEvent) -> Result<Empty, CallError>;
            $(async fn $method(&self, timeout: Duration, r: &$request) -> Result<$reply, CallError>;)*
        }

        #[async_trait]
        impl PluginSession for PluginClient {
            async fn configure(&self, timeout: Duration, r: &ConfigureRequest) -> Result<ConfigureResponse, CallError> {
                PluginClient::configure(self, timeout, r).await
            }
            async fn synchronize(&self, timeout: Duration, r: &SynchronizeRequest) -> Result<SynchronizeResponse, CallError> {
                PluginClient::synchronize(self, timeout, r).await
            }
            async fn shutdown(&self, timeout: Duration) -> Result<Empty, CallError> {
                PluginClient::shutdown(self, timeout, &Empty::new()).await
            }
            async fn state_change(&self, timeout: Duration, r: &StateChangeEvent) -> Result<Empty, CallError> {
                PluginClient::state_change(self, timeout, r).await
            }
            $(async fn $method(&self, timeout: Duration, r: &$request) -> Result<$reply, CallError> {
                PluginClient::$method(self, timeout, r).await
            })*
        }

        $(impl EventRequest for $request {
            type Reply = $reply;
            const EVENT: Event = Event::$event;

            async fn send(&self, session: &dyn PluginSession, timeout: Duration) -> Result<$reply, CallError> {
                session.$method(timeout, self).await
            }

            fn state_change(&self) -> Option<(StateChangeEvent, $reply)> {
                events!(@form $form self.pod, events!(@container $about self))
                    .map(|(pod, container)| (old(Event::$event, pod, container), $reply::new()))
            }

            fn subject(&self) -> &str {
                &self.$about.id
            }
        })*
    };
    (@container pod $self:ident) => { MessageField::none() };
    (@container container $self:ident) => { $self.container.clone() };
    (@form new $pod:expr, $container:expr) => { None::<(MessageField<PodSandbox>, MessageField<Container>)> };
    (@form old $pod:expr, $container:expr) => { Some(($pod.clone(), $container)) };
}

fn old(
    event: Event,
    pod: MessageField<PodSandbox>,
    container: MessageField<Container>,
) -> StateChangeEvent {
    StateChangeEvent { event: event.into(), pod, container, ..StateChangeEvent::default() }
}

// event, call, whether it is about a pod or a container, whether plugins may know it in its old
// form only (StateChange)
events! {
    RUN_POD_SANDBOX run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse pod old;
    UPDATE_POD_SANDBOX update_pod_sandbox(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse pod new;
    POST_UPDATE_POD_SANDBOX post_update_pod_sandbox(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse pod old;
    STOP_POD_SANDBOX stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse pod old;
    REMOVE_POD_SANDBOX remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse pod old;
    CREATE_CONTAINER create_container(CreateContainerRequest) -> CreateContainerResponse container new;
    POST_CREATE_CONTAINER post_create_container(PostCreateContainerRequest) -> PostCreateContainerResponse container old;
    START_CONTAINER start_container(StartContainerRequest) -> StartContainerResponse container old;
    POST_START_CONTAINER post_start_container(PostStartContainerRequest) -> PostStartContainerResponse container old;
    UPDATE_CONTAINER update_container(UpdateContainerRequest) -> UpdateContainerResponse container new;
    POST_UPDATE_CONTAINER post_update_container(PostUpdateContainerRequest) -> PostUpdateContainerResponse container old;
    STOP_CONTAINER stop_container(StopContainerRequest) -> StopContainerResponse container new;
    REMOVE_CONTAINER remove_container(RemoveContainerRequest) -> RemoveContainerResponse container old;
    VALIDATE_CONTAINER_ADJUSTMENT validate_container_adjustment(ValidateContainerAdjustmentRequest)
        -> ValidateContainerAdjustmentResponse container new;
}
