//! Dispatches the calls of the protocol to the methods of [`Plugin`], including `StateChange`,
//! which older runtimes use.

use crate::{
    EventMask, Failure, Mistake, Plugin, Reply, Session, config_file::PluginConfigFile,
    plugin::takes_configuration, reply::build_updates,
};
use async_trait::async_trait;
use nri_api::proto::*;
use nri_wire::{Context, status, ttrpc};
use protobuf::MessageField;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use ttrpc::Code;

/// A plugin as a ttrpc service.
pub(crate) struct Served<P> {
    pub(crate) plugin: Arc<P>,
    pub(crate) session: Session,
    /// Received parts of a split `Synchronize`.
    pub(crate) parts: Mutex<Option<SynchronizeRequest>>,
    /// Error with which the plugin refused its configuration.
    pub(crate) refusal: Arc<Mutex<Option<String>>>,
    /// Whether the runtime has sent `Shutdown`.
    pub(crate) is_shut_down: Arc<AtomicBool>,
    pub(crate) failure_policy: Option<FailurePolicy>,
    pub(crate) config_file: Option<Arc<PluginConfigFile>>,
    /// Path of the socket, if the registration is logged: that of a plugin that connects again.
    pub(crate) socket: Option<PathBuf>,
}

#[async_trait]
impl<P: Plugin> nri_wire::Plugin for Served<P> {
    async fn configure(
        &self,
        _: &Context,
        request: ConfigureRequest,
    ) -> ttrpc::Result<ConfigureResponse> {
        self.session.set_runtime(&request);
        let of_file = self.config_file.as_ref().map(|file| file.of_session(&self.session));
        let config = match of_file {
            Some(text) if request.config.trim().is_empty() => text,
            Some(_) | None => request.config,
        };
        if let Err(e) = self.plugin.configure(&self.session, &config).await {
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(e.to_string());
            return Err(ttrpc_error(&e));
        }
        let events = subscription(self.plugin.events(), &request.NRI_version);
        let runtime = format!("{} {}", request.runtime_name, request.runtime_version);
        let (plugin, runtime) = (self.session.plugin(), runtime.trim());
        match &self.socket {
            Some(socket) => {
                tracing::info!("{plugin}: registered with {runtime} at {}", socket.display());
                self.log_missing(&config, &request.runtime_name);
            }
            None => tracing::debug!("{plugin}: configured by {runtime}"),
        }
        let of_builder = self.failure_policy.clone();
        let failure_policy = of_builder.or_else(|| self.plugin.failure_policy()).into();
        Ok(ConfigureResponse { events: events.bits(), failure_policy, ..Default::default() })
    }

    async fn synchronize(
        &self,
        _: &Context,
        request: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        let more = request.more;
        let Some(joined) = self.collect(request) else {
            return Ok(SynchronizeResponse { more, ..Default::default() });
        };
        let updates =
            to_ttrpc(self.plugin.synchronize(&self.session, joined.pods, joined.containers).await)?;
        let update = built(build_updates(updates))?;
        tracing::debug!("{}: synchronized", self.session.plugin());
        Ok(SynchronizeResponse { update, ..Default::default() })
    }

    async fn shutdown(&self, _: &Context, _: Empty) -> ttrpc::Result<Empty> {
        self.is_shut_down.store(true, Ordering::Relaxed);
        self.plugin.shutdown(&self.session).await;
        Ok(Empty::new())
    }

    async fn update_pod_sandbox(
        &self,
        _: &Context,
        request: UpdatePodSandboxRequest,
    ) -> ttrpc::Result<UpdatePodSandboxResponse> {
        let (pod, overhead) =
            (or_default(request.pod), or_default(request.overhead_linux_resources));
        let resources = or_default(request.linux_resources);
        to_ttrpc(self.plugin.update_pod_sandbox(&self.session, pod, overhead, resources).await)?;
        Ok(UpdatePodSandboxResponse::new())
    }

    async fn create_container(
        &self,
        _: &Context,
        request: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        let id = container.id.clone();
        let creation = to_ttrpc(self.plugin.create_container(&self.session, pod, container).await)?;
        built(creation.build(&id))
    }

    async fn update_container(
        &self,
        _: &Context,
        request: UpdateContainerRequest,
    ) -> ttrpc::Result<UpdateContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        let resources = or_default(request.linux_resources);
        let changes =
            to_ttrpc(self.plugin.update_container(&self.session, pod, container, resources).await)?;
        built(changes.build())
    }

    async fn stop_container(
        &self,
        _: &Context,
        request: StopContainerRequest,
    ) -> ttrpc::Result<StopContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        let updates = to_ttrpc(self.plugin.stop_container(&self.session, pod, container).await)?;
        let update = built(build_updates(updates))?;
        Ok(StopContainerResponse { update, ..Default::default() })
    }

    async fn validate_container_adjustment(
        &self,
        _: &Context,
        request: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        let mut verdict = ValidateContainerAdjustmentResponse::new();
        if let Err(e) = self.plugin.validate_container_adjustment(&self.session, request).await {
            (verdict.reject, verdict.reason) = (true, e.to_string());
        }
        Ok(verdict)
    }

    /// Handles the events that runtimes before NRI v0.12 send as `StateChange` instead of by
    /// dedicated calls.
    async fn state_change(&self, _: &Context, event: StateChangeEvent) -> ttrpc::Result<Empty> {
        let (plugin, session) = (&self.plugin, &self.session);
        let (kind, pod, container) =
            (event.event, or_default(event.pod), or_default(event.container));
        to_ttrpc(match kind.enum_value_or_default() {
            Event::RUN_POD_SANDBOX => plugin.run_pod_sandbox(session, pod).await,
            Event::POST_UPDATE_POD_SANDBOX => plugin.post_update_pod_sandbox(session, pod).await,
            Event::STOP_POD_SANDBOX => plugin.stop_pod_sandbox(session, pod).await,
            Event::REMOVE_POD_SANDBOX => plugin.remove_pod_sandbox(session, pod).await,
            Event::POST_CREATE_CONTAINER => {
                plugin.post_create_container(session, pod, container).await
            }
            Event::START_CONTAINER => plugin.start_container(session, pod, container).await,
            Event::POST_START_CONTAINER => {
                plugin.post_start_container(session, pod, container).await
            }
            Event::POST_UPDATE_CONTAINER => {
                plugin.post_update_container(session, pod, container).await
            }
            Event::REMOVE_CONTAINER => plugin.remove_container(session, pod, container).await,
            // All other known events have dedicated calls; unknown events must not fail.
            _ => Ok(()),
        })?;
        Ok(Empty::new())
    }

    async fn run_pod_sandbox(
        &self,
        _: &Context,
        request: RunPodSandboxRequest,
    ) -> ttrpc::Result<RunPodSandboxResponse> {
        to_ttrpc(self.plugin.run_pod_sandbox(&self.session, or_default(request.pod)).await)?;
        Ok(RunPodSandboxResponse::new())
    }

    async fn post_update_pod_sandbox(
        &self,
        _: &Context,
        request: PostUpdatePodSandboxRequest,
    ) -> ttrpc::Result<PostUpdatePodSandboxResponse> {
        to_ttrpc(
            self.plugin.post_update_pod_sandbox(&self.session, or_default(request.pod)).await,
        )?;
        Ok(PostUpdatePodSandboxResponse::new())
    }

    async fn stop_pod_sandbox(
        &self,
        _: &Context,
        request: StopPodSandboxRequest,
    ) -> ttrpc::Result<StopPodSandboxResponse> {
        to_ttrpc(self.plugin.stop_pod_sandbox(&self.session, or_default(request.pod)).await)?;
        Ok(StopPodSandboxResponse::new())
    }

    async fn remove_pod_sandbox(
        &self,
        _: &Context,
        request: RemovePodSandboxRequest,
    ) -> ttrpc::Result<RemovePodSandboxResponse> {
        to_ttrpc(self.plugin.remove_pod_sandbox(&self.session, or_default(request.pod)).await)?;
        Ok(RemovePodSandboxResponse::new())
    }

    async fn post_create_container(
        &self,
        _: &Context,
        request: PostCreateContainerRequest,
    ) -> ttrpc::Result<PostCreateContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        to_ttrpc(self.plugin.post_create_container(&self.session, pod, container).await)?;
        Ok(PostCreateContainerResponse::new())
    }

    async fn start_container(
        &self,
        _: &Context,
        request: StartContainerRequest,
    ) -> ttrpc::Result<StartContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        to_ttrpc(self.plugin.start_container(&self.session, pod, container).await)?;
        Ok(StartContainerResponse::new())
    }

    async fn post_start_container(
        &self,
        _: &Context,
        request: PostStartContainerRequest,
    ) -> ttrpc::Result<PostStartContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        to_ttrpc(self.plugin.post_start_container(&self.session, pod, container).await)?;
        Ok(PostStartContainerResponse::new())
    }

    async fn post_update_container(
        &self,
        _: &Context,
        request: PostUpdateContainerRequest,
    ) -> ttrpc::Result<PostUpdateContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        to_ttrpc(self.plugin.post_update_container(&self.session, pod, container).await)?;
        Ok(PostUpdateContainerResponse::new())
    }

    async fn remove_container(
        &self,
        _: &Context,
        request: RemoveContainerRequest,
    ) -> ttrpc::Result<RemoveContainerResponse> {
        let (pod, container) = (or_default(request.pod), or_default(request.container));
        to_ttrpc(self.plugin.remove_container(&self.session, pod, container).await)?;
        Ok(RemoveContainerResponse::new())
    }
}

impl<P> Served<P> {
    /// Logs that a plugin that takes a configuration has none, and no file of its own.
    fn log_missing(&self, config: &str, runtime: &str)
    where
        P: Plugin,
    {
        let is_missing = config.trim().is_empty() && self.config_file.is_none();
        if is_missing && takes_configuration::<P>() {
            let plugin = self.session.plugin();
            tracing::info!(
                "{plugin}: no configuration from {runtime}: it sends one only to plugins that it \
                 launches"
            );
        }
    }

    /// Adds a part of a split request, and returns the joined request after the last part.
    fn collect(&self, part: SynchronizeRequest) -> Option<SynchronizeRequest> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let more = part.more;
        let joined = match parts.take() {
            None => part,
            Some(mut joined) => {
                joined.pods.extend(part.pods);
                joined.containers.extend(part.containers);
                joined
            }
        };
        if more {
            *parts = Some(joined);
            return None;
        }
        Some(joined)
    }
}

/// Events that runtimes before NRI v0.12 may not know. Those refuse a subscription to unknown
/// events, and do not send their NRI version.
const LATE: [Event; 3] = [
    Event::UPDATE_POD_SANDBOX,
    Event::POST_UPDATE_POD_SANDBOX,
    Event::VALIDATE_CONTAINER_ADJUSTMENT,
];

/// Returns the subscription in the form of the protocol, where an empty set means all events that
/// the runtime knows.
fn subscription(events: EventMask, nri_version: &str) -> EventMask {
    match events {
        EventMask::ALL => EventMask::NONE,
        events if events.is_empty() => EventMask::from_iter([Event::REMOVE_POD_SANDBOX]),
        events if nri_version.is_empty() && LATE.iter().any(|event| events.contains(*event)) => {
            EventMask::NONE
        }
        events => events,
    }
}

fn or_default<M: Default>(field: MessageField<M>) -> M {
    field.into_option().unwrap_or_default()
}

fn to_ttrpc<T>(reply: Reply<T>) -> ttrpc::Result<T> {
    reply.map_err(|e| ttrpc_error(&e))
}

/// Returns a reply as the runtime gets it. A mistake in it is a fault of the plugin: a runtime that
/// counts failures must not take it for a refusal.
fn built<T>(reply: Result<T, Mistake>) -> ttrpc::Result<T> {
    reply.map_err(|mistake| status(Code::INTERNAL, mistake))
}

fn ttrpc_error(e: &Failure) -> ttrpc::Error {
    status(Code::UNKNOWN, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_handler_and_a_mistake_in_its_reply_have_different_codes() {
        let code = |error| match error {
            ttrpc::Error::RpcStatus(status) => status.code.value(),
            other => panic!("{other}"),
        };
        let refused = to_ttrpc(Reply::<()>::Err("no".into())).map_err(code);
        let mistake = built::<()>(Err(Mistake::NoContainer)).map_err(code);
        let codes = [Code::UNKNOWN, Code::INTERNAL].map(|code| Err(code as i32));
        assert_eq!([refused, mistake], codes);
    }

    #[test]
    fn no_runtime_is_asked_for_events_that_it_may_not_know() {
        let of = |events: &[Event]| EventMask::from_iter(events.iter().copied());
        let create = of(&[Event::CREATE_CONTAINER]);
        for version in ["", "v0.12.3"] {
            assert_eq!(subscription(create, version), create);
            assert_eq!(subscription(EventMask::ALL, version), EventMask::NONE);
            // In the protocol, an empty set would mean all events.
            assert_eq!(subscription(EventMask::NONE, version), of(&[Event::REMOVE_POD_SANDBOX]));
        }
        for late in LATE {
            assert_eq!(subscription(create.with(late), "v0.12.3"), create.with(late));
            assert_eq!(subscription(create.with(late), ""), EventMask::NONE);
        }
    }
}
