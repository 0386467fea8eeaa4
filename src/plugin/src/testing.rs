//! Tests of a plugin in its own process: without a runtime, without sockets, and without `async`.
//!
//! ```
//! use nri_plugin::{prelude::*, testing::{InProcessRuntime, container, env, pod}};
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     async fn create_container(
//!         &self,
//!         _: &Session,
//!         _: PodSandbox,
//!         container: Container,
//!     ) -> Reply<Creation> {
//!         let mut adjustment = Adjustment::new();
//!         adjustment.add_env("HELLO", &container.name);
//!         Ok(adjustment.into())
//!     }
//! }
//!
//! let runtime = InProcessRuntime::start(Greeter, "")?;
//! let pod = pod("shop");
//! let reply = runtime.create_container(&pod, &container(&pod, "web"))?;
//! assert_eq!(env(&reply, "HELLO"), Some("web"));
//! # Ok::<(), nri_plugin::testing::Refused>(())
//! ```

use crate::{EventMask, Plugin, Session, served::Served, session::RequestTarget};
use nri_api::{NRI_VERSION, PluginId, proto::*};
use nri_wire::{Context, Plugin as _, ttrpc};
use std::sync::{Arc, Mutex, PoisonError};

/// Error that the plugin replied with; its text is what a runtime would receive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A runtime in the process of a test, which calls one plugin. As a real one, it sends only the
/// events that the plugin is subscribed to; for others, the reply is empty.
///
/// Its methods wait for the plugin's reply, without a timeout, and must not be called in a tokio
/// runtime. A panic of the plugin is a panic of the test.
///
/// It has no containers: it neither merges an adjustment into a container, nor checks values.
pub struct InProcessRuntime<P> {
    served: Served<P>,
    events: EventMask,
    failure_policy: Option<FailurePolicy>,
    requests: Arc<Mutex<Vec<UpdateContainersRequest>>>,
    tokio: tokio::runtime::Runtime,
}

impl<P: Plugin> InProcessRuntime<P> {
    /// Starts a session with the plugin: configures it with this text, and synchronizes it with no
    /// containers.
    ///
    /// # Errors
    /// If the plugin refuses the configuration or the synchronization.
    pub fn start(plugin: P, config: &str) -> Result<Self, Refused> {
        Self::start_as("test", plugin, config)
    }

    /// Starts a session as [`start`](Self::start) does, for plugins that do not treat all runtimes
    /// alike; this one has the given name.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn start_as(name: &str, plugin: P, config: &str) -> Result<Self, Refused> {
        let id = PluginId::new("00", "test").map_err(|e| Refused(e.to_string()))?;
        let session = Session::new(id);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = requests.clone();
        session.set_target(RequestTarget::Test(Box::new(move |request| {
            received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            UpdateContainersResponse::new()
        })));
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut runtime = Self {
            served: Served {
                plugin: Arc::new(plugin),
                session,
                parts: Mutex::default(),
                refusal: Arc::default(),
                is_shut_down: Arc::default(),
                failure_policy: None,
                config_file: None,
                socket: None,
            },
            events: EventMask::NONE,
            failure_policy: None,
            requests,
            tokio: tokio.map_err(|e| Refused(e.to_string()))?,
        };
        let request = ConfigureRequest {
            config: config.to_owned(),
            runtime_name: name.to_owned(),
            request_timeout: 2000, // ms
            registration_timeout: 5000,
            NRI_version: NRI_VERSION.to_owned(),
            ..Default::default()
        };
        let reply = runtime.call(runtime.served.configure(&Context::default(), request))?;
        let events = EventMask::from_subscription(reply.events);
        runtime.events = events.map_err(|e| Refused(e.to_string()))?;
        runtime.failure_policy = reply.failure_policy.into_option();
        runtime.synchronize(&[], &[])?;
        Ok(runtime)
    }

    /// Returns the plugin.
    pub fn plugin(&self) -> &P {
        &self.served.plugin
    }

    /// Returns the events that the plugin is subscribed to.
    pub fn events(&self) -> EventMask {
        self.events
    }

    /// Returns the handling of failures that the plugin has requested.
    pub fn failure_policy(&self) -> Option<&FailurePolicy> {
        self.failure_policy.as_ref()
    }

    /// Returns the requests of the plugin outside of replies ([`Session::update_containers`]) since
    /// the last call. All of them succeed.
    pub fn take_requests(&self) -> Vec<UpdateContainersRequest> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the plugin another configuration, as SIGHUP does (see
    /// [`Builder::config_file`](crate::Builder::config_file)).
    ///
    /// # Errors
    /// The error of the plugin.
    pub fn reconfigure(&self, config: &str) -> Result<(), Refused> {
        let Served { plugin, session, .. } = &self.served;
        let reply = self.tokio.block_on(plugin.reconfigure(session, config));
        reply.map_err(|error| Refused(error.to_string()))
    }

    /// Synchronizes the plugin with existing pods and containers, and returns its updates.
    ///
    /// # Errors
    /// The error of the plugin.
    pub fn synchronize(
        &self,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refused> {
        let request = SynchronizeRequest {
            pods: pods.to_vec(),
            containers: containers.to_vec(),
            ..Default::default()
        };
        Ok(self.call(self.served.synchronize(&Context::default(), request))?.update)
    }

    /// Requests the creation of a container.
    ///
    /// # Errors
    /// The error of the plugin, or the [`Mistake`](crate::Mistake) in its reply.
    pub fn create_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, Refused> {
        let request = CreateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let context = Context::default();
        self.event(Event::CREATE_CONTAINER, self.served.create_container(&context, request))
    }

    /// Requests the update of a container's resources.
    ///
    /// # Errors
    /// As for [`create_container`](Self::create_container).
    pub fn update_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<UpdateContainerResponse, Refused> {
        let request = UpdateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            linux_resources: Some(resources.clone()).into(),
            ..Default::default()
        };
        let context = Context::default();
        self.event(Event::UPDATE_CONTAINER, self.served.update_container(&context, request))
    }

    /// Tells the plugin that a container has stopped, and returns its updates of others.
    ///
    /// # Errors
    /// As for [`create_container`](Self::create_container).
    pub fn stop_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, Refused> {
        let request = StopContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let context = Context::default();
        let reply = self.served.stop_container(&context, request);
        Ok(self.event(Event::STOP_CONTAINER, reply)?.update)
    }

    /// Requests the update of a pod's resources.
    ///
    /// # Errors
    /// The error of the plugin.
    pub fn update_pod_sandbox(
        &self,
        pod: &PodSandbox,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), Refused> {
        let request = UpdatePodSandboxRequest {
            pod: Some(pod.clone()).into(),
            overhead_linux_resources: Some(overhead.clone()).into(),
            linux_resources: Some(resources.clone()).into(),
            ..Default::default()
        };
        let context = Context::default();
        let reply = self.served.update_pod_sandbox(&context, request);
        self.event(Event::UPDATE_POD_SANDBOX, reply).map(drop)
    }

    /// Sends an event that has no other reply than success, such as `START_CONTAINER` or
    /// `REMOVE_POD_SANDBOX`; events of pods have no container.
    ///
    /// # Errors
    /// The error of the plugin.
    pub fn notify(
        &self,
        event: Event,
        pod: &PodSandbox,
        container: Option<&Container>,
    ) -> Result<(), Refused> {
        let change = StateChangeEvent {
            event: event.into(),
            pod: Some(pod.clone()).into(),
            container: container.cloned().into(),
            ..Default::default()
        };
        self.event(event, self.served.state_change(&Context::default(), change)).map(drop)
    }

    /// Requests the validation of a container's adjustment.
    ///
    /// # Errors
    /// The reason why the plugin rejects it.
    pub fn validate(&self, request: ValidateContainerAdjustmentRequest) -> Result<(), Refused> {
        let context = Context::default();
        let reply = self.served.validate_container_adjustment(&context, request);
        let verdict = self.event(Event::VALIDATE_CONTAINER_ADJUSTMENT, reply)?;
        if verdict.reject { Err(Refused(verdict.reason)) } else { Ok(()) }
    }

    /// Ends the session, as a runtime that shuts down.
    pub fn shutdown(self) {
        // The reply is empty, and the plugin's handler has no error.
        self.call(self.served.shutdown(&Context::default(), Empty::new())).ok();
    }

    /// Waits for the reply to an event that the plugin is subscribed to.
    fn event<T: Default>(
        &self,
        event: Event,
        reply: impl Future<Output = ttrpc::Result<T>>,
    ) -> Result<T, Refused> {
        if self.events.contains(event) { self.call(reply) } else { Ok(T::default()) }
    }

    fn call<T>(&self, reply: impl Future<Output = ttrpc::Result<T>>) -> Result<T, Refused> {
        self.tokio.block_on(reply).map_err(|error| match error {
            ttrpc::Error::RpcStatus(status) => Refused(status.message),
            other => Refused(other.to_string()),
        })
    }
}

/// Returns a pod with this name, in the namespace `default`; its id is the name. Its other fields
/// are public.
pub fn pod(name: &str) -> PodSandbox {
    PodSandbox {
        id: name.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        namespace: "default".to_owned(),
        ..Default::default()
    }
}

/// Returns a container of a pod; its id is made of both names. Its other fields are public.
pub fn container(pod: &PodSandbox, name: &str) -> Container {
    Container {
        id: format!("{}-{name}", pod.id),
        pod_sandbox_id: pod.id.clone(),
        name: name.to_owned(),
        state: ContainerState::CONTAINER_CREATED.into(),
        ..Default::default()
    }
}

/// Returns the value that a reply sets an environment variable to.
pub fn env<'a>(reply: &'a CreateContainerResponse, name: &str) -> Option<&'a str> {
    let variable = reply.adjust.env.iter().find(|variable| variable.key == name)?;
    Some(&variable.value)
}
