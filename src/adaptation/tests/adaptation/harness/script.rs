//! Scripted plugins: a service that logs calls and replies by a script.

use super::log::Log;
use async_trait::async_trait;
use nri_api::EventMask;
use nri_api::proto::*;
use nri_wire::ttrpc::{self, Code};
use nri_wire::{Context, Plugin, RuntimeClient, status};
use std::sync::OnceLock;

/// Behaviour of a scripted plugin. The defaults change nothing.
#[async_trait]
pub(crate) trait Script: Send + Sync + 'static {
    async fn configure(&self, _: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        None
    }
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        r: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        Ok(SynchronizeResponse { more: r.more, ..Default::default() })
    }
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Ok(CreateContainerResponse::new())
    }
    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        Ok(UpdateContainerResponse::new())
    }
    async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        Ok(StopContainerResponse::new())
    }
    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        Ok(ValidateContainerAdjustmentResponse::new())
    }
    /// Handles any other event.
    async fn event(&self, _: Event, _subject: &str) -> ttrpc::Result<()> {
        Ok(())
    }
    /// Handles any other event that is sent as a `StateChange`.
    async fn state_change_event(&self, _: Event, _subject: &str) -> ttrpc::Result<()> {
        Ok(())
    }
}

/// Script that changes nothing.
pub(crate) struct Quiet;
impl Script for Quiet {}

/// Script that never replies to a creation or a validation.
pub(crate) struct Hangs;

#[async_trait]
impl Script for Hangs {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        std::future::pending().await
    }

    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        std::future::pending().await
    }
}

/// Service of a scripted plugin; it logs each call as `NN-name call subject`.
pub(super) struct Scripted<S> {
    pub(super) name: String,
    pub(super) events: EventMask,
    pub(super) log: Log,
    /// Client for requests to the runtime, set after the connection.
    pub(super) runtime: OnceLock<RuntimeClient>,
    pub(super) script: S,
}

impl<S: Script> Scripted<S> {
    fn log_call(&self, what: &str, subject: &str) {
        self.log.add(format!("{} {what} {subject}", self.name));
    }

    fn runtime(&self) -> &RuntimeClient {
        self.runtime.get().expect("set before the plugin registers")
    }
}

// The whole implementation is generated: async_trait does not expand macros within it.
macro_rules! scripted {
    ($($method:ident($request:ident) -> $reply:ident $about:ident $event:ident;)*) => {
        #[async_trait]
        impl<S: Script> Plugin for Scripted<S> {
            async fn configure(
                &self,
                _: &Context,
                r: ConfigureRequest,
            ) -> ttrpc::Result<ConfigureResponse> {
                let events = self.events.bits();
                let default = ConfigureResponse { events, ..Default::default() };
                self.script.configure(r).await.unwrap_or(Ok(default))
            }
            async fn synchronize(
                &self,
                _: &Context,
                r: SynchronizeRequest,
            ) -> ttrpc::Result<SynchronizeResponse> {
                let ids: Vec<_> = r.containers.iter().map(|c| c.id.as_str()).collect();
                self.log_call("synchronize", &ids.join(","));
                self.script.synchronize(self.runtime(), r).await
            }
            async fn shutdown(&self, _: &Context, _: Empty) -> ttrpc::Result<Empty> {
                self.log_call("shutdown", "");
                Ok(Empty::new())
            }
            async fn create_container(
                &self,
                _: &Context,
                r: CreateContainerRequest,
            ) -> ttrpc::Result<CreateContainerResponse> {
                self.log_call("create_container", &r.container.id);
                self.script.create(self.runtime(), r).await
            }
            async fn update_container(
                &self,
                _: &Context,
                r: UpdateContainerRequest,
            ) -> ttrpc::Result<UpdateContainerResponse> {
                self.log_call("update_container", &r.container.id);
                self.script.update(r).await
            }
            async fn stop_container(
                &self,
                _: &Context,
                r: StopContainerRequest,
            ) -> ttrpc::Result<StopContainerResponse> {
                self.log_call("stop_container", &r.container.id);
                self.script.stop(r).await
            }
            async fn validate_container_adjustment(
                &self,
                _: &Context,
                r: ValidateContainerAdjustmentRequest,
            ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
                self.log_call("validate_container_adjustment", &r.container.id);
                self.script.validate(r).await
            }
            async fn state_change(&self, _: &Context, r: StateChangeEvent) -> ttrpc::Result<Empty> {
                let event = r.event.enum_value().unwrap();
                let subject = if r.container.is_some() { &r.container.id } else { &r.pod.id };
                self.log_call(&format!("state_change {event:?}"), subject);
                self.script.state_change_event(event, subject).await.map(|()| Empty::new())
            }
            $(async fn $method(&self, _: &Context, r: $request) -> ttrpc::Result<$reply> {
                self.log_call(stringify!($method), &r.$about.id);
                self.script.event(Event::$event, &r.$about.id).await.map(|()| $reply::new())
            })*
        }
    };
}

scripted! {
    run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse pod RUN_POD_SANDBOX;
    update_pod_sandbox(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse pod UPDATE_POD_SANDBOX;
    post_update_pod_sandbox(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse
        pod POST_UPDATE_POD_SANDBOX;
    stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse pod STOP_POD_SANDBOX;
    remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse pod REMOVE_POD_SANDBOX;
    post_create_container(PostCreateContainerRequest) -> PostCreateContainerResponse
        container POST_CREATE_CONTAINER;
    start_container(StartContainerRequest) -> StartContainerResponse container START_CONTAINER;
    post_start_container(PostStartContainerRequest) -> PostStartContainerResponse
        container POST_START_CONTAINER;
    post_update_container(PostUpdateContainerRequest) -> PostUpdateContainerResponse
        container POST_UPDATE_CONTAINER;
    remove_container(RemoveContainerRequest) -> RemoveContainerResponse container REMOVE_CONTAINER;
}

pub(crate) fn unimplemented() -> ttrpc::Error {
    status(Code::UNIMPLEMENTED, "not implemented")
}
