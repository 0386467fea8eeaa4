//! [`Instance`]: NRI with threads of its own, and functions that wait and take texts.

use nri_runtime::proto::{Container, Event, PodSandbox};
use nri_runtime::{Nri, RuntimeConfig, RuntimeHandler, Snapshot};
use protobuf::Enum;
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::messages::{
    change_container, change_pod, info, parse, parse_state, print_plugins, print_state,
};

/// Threads that serve plugins. Functions are performed by the threads that call them.
const THREADS: usize = 2;

/// Time that threads of callbacks which do not return have at the shutdown.
const CALLBACK_GRACE: Duration = Duration::from_secs(1);

/// NRI of a program in C.
pub struct Instance {
    threads: Runtime,
    nri: Nri,
}

impl Instance {
    /// Starts NRI. `state` are pods and containers that exist.
    pub(crate) fn start(
        config: RuntimeConfig,
        handler: impl RuntimeHandler,
        state: Option<&str>,
    ) -> Result<Self, Failure> {
        let existing = state.map(parse_state).transpose()?.unwrap_or_else(Snapshot::default);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("nri").enable_all();
        let threads = builder.build().map_err(Failure::Threads)?;
        let nri = threads.block_on(Nri::start(config, handler, existing))?;
        Ok(Self { threads, nri })
    }

    /// Returns the adjusted `config.json` of a new container.
    pub(crate) fn create_container(&self, message: &str, config: &str) -> Result<String, Failure> {
        let info = info(parse::<Container>("container", message)?);
        let created = self.nri.create_container(&info, config.as_bytes());
        let adjusted = self.threads.block_on(created)?.config;
        String::from_utf8(adjusted).map_err(|e| Failure::argument("config", e))
    }

    /// Returns the resources to update a container with.
    pub(crate) fn update_container(&self, id: &str, resources: &str) -> Result<String, Failure> {
        let requested: Value =
            serde_json::from_str(resources).map_err(|e| Failure::argument("resources", e))?;
        let updated = self.nri.update_container(id, &requested);
        Ok(self.threads.block_on(updated)?.to_string())
    }

    /// Sends an event. `message` is a pod or a container.
    pub(crate) fn event(&self, kind: i32, message: &str) -> Result<(), Failure> {
        let unknown = || Failure::argument("kind", format!("{kind} is no event"));
        let event = Event::from_i32(kind).ok_or_else(unknown)?;
        match event {
            Event::RUN_POD_SANDBOX
            | Event::UPDATE_POD_SANDBOX
            | Event::POST_UPDATE_POD_SANDBOX
            | Event::STOP_POD_SANDBOX
            | Event::REMOVE_POD_SANDBOX => self.pod_event(event, parse("message", message)?),
            Event::POST_CREATE_CONTAINER
            | Event::START_CONTAINER
            | Event::POST_START_CONTAINER
            | Event::POST_UPDATE_CONTAINER
            | Event::STOP_CONTAINER
            | Event::REMOVE_CONTAINER => self.container_event(event, parse("message", message)?),
            _ => Err(Failure::argument("kind", format!("{event:?} is not for nri_event"))),
        }
    }

    fn pod_event(&self, event: Event, message: PodSandbox) -> Result<(), Failure> {
        let (nri, id) = (&self.nri, message.id.clone());
        if event == Event::RUN_POD_SANDBOX {
            return Ok(self.threads.block_on(nri.run_pod_sandbox(message))?);
        }
        nri.change_pod(&id, |pod| change_pod(pod, &message))?;
        self.threads.block_on(async {
            match event {
                Event::UPDATE_POD_SANDBOX => {
                    let linux = message.linux.unwrap_or_default();
                    let overhead = linux.pod_overhead.unwrap_or_default();
                    let resources = linux.pod_resources.unwrap_or_default();
                    nri.update_pod_sandbox(&id, overhead, resources).await
                }
                Event::POST_UPDATE_POD_SANDBOX => nri.post_update_pod_sandbox(&id),
                Event::STOP_POD_SANDBOX => nri.stop_pod_sandbox(&id).await,
                _ => nri.remove_pod_sandbox(&id).await,
            }
        })?;
        Ok(())
    }

    fn container_event(&self, event: Event, message: Container) -> Result<(), Failure> {
        let (nri, id) = (&self.nri, &message.id);
        nri.change_container(id, |container| change_container(container, &message))?;
        self.threads.block_on(async {
            match event {
                Event::POST_CREATE_CONTAINER => nri.post_create_container(id),
                Event::START_CONTAINER => nri.start_container(id).await,
                Event::POST_START_CONTAINER => nri.post_start_container(id),
                Event::POST_UPDATE_CONTAINER => nri.post_update_container(id),
                Event::STOP_CONTAINER => nri.stop_container(id).await,
                _ => nri.remove_container(id).await,
            }
        })?;
        Ok(())
    }

    /// Returns pods and containers, for the next start.
    pub(crate) fn state(&self) -> Result<String, Failure> {
        print_state(self.nri.snapshot())
    }

    /// Returns the plugins.
    pub(crate) fn plugins(&self) -> String {
        print_plugins(&self.nri.plugins())
    }

    /// Ends plugins and threads.
    pub(crate) fn shutdown(self) {
        self.threads.block_on(self.nri.shutdown());
        self.threads.shutdown_timeout(CALLBACK_GRACE);
    }
}
