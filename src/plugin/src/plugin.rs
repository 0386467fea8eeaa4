//! The trait that a plugin implements: a method for each event.

use crate::{Adjustment, EventMask, Session, Update};
use async_trait::async_trait;
use nri_api::proto::*;

/// Error of a handler. The runtime receives its text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Result of a handler.
pub type Reply<T> = Result<T, Failure>;

/// An NRI plugin. All methods but [`events`](Self::events) have a default that changes nothing.
///
/// The runtime sends one event at a time and waits for the reply, up to a timeout
/// ([`RuntimeInfo::request_timeout`](crate::RuntimeInfo)). After a timeout the runtime continues
/// without the plugin, and handlers may overlap. A handler is never cancelled. A panic of a handler
/// fails only the event.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Returns the events that the plugin subscribes to. Called after
    /// [`configure`](Self::configure). An empty set subscribes to all events but
    /// `VALIDATE_CONTAINER_ADJUSTMENT`: containers are refused if a validator hangs or crashes, so
    /// a plugin has to name that event. A runtime that does not send its NRI version gets the empty
    /// set, and takes it for all events that it knows.
    fn events(&self) -> EventMask;

    /// Receives the content of the plugin's configuration file; empty if there is no file.
    /// Runtimes send the content to launched plugins only. From this call on, [`Session::runtime`]
    /// describes the runtime.
    ///
    /// # Errors
    /// An error ends the session.
    async fn configure(&self, session: &Session, config: &str) -> Reply<()> {
        let _ = (session, config);
        Ok(())
    }

    /// Receives all existing pods and containers when the plugin connects. Returns updates of
    /// containers.
    async fn synchronize(
        &self,
        session: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<ContainerUpdate>> {
        let _ = (session, pods, containers);
        Ok(Vec::new())
    }

    /// Called before the runtime closes the connection.
    async fn shutdown(&self, session: &Session) {
        let _ = session;
    }

    /// Called before a pod starts.
    ///
    /// # Errors
    /// An error prevents the start.
    async fn run_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// Called before a pod's resources change to `resources`.
    ///
    /// # Errors
    /// An error prevents the change.
    async fn update_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        let _ = (session, pod, overhead, resources);
        Ok(())
    }

    /// Called after a pod's resources changed.
    async fn post_update_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// Called after a pod stopped.
    async fn stop_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// Called after a pod was removed.
    async fn remove_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// Called before a container is created; `container` has the adjustments of earlier plugins.
    /// Returns the adjustment of the container, and updates and evictions of other containers.
    ///
    /// # Errors
    /// An error prevents the creation.
    async fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let _ = (session, pod, container);
        Ok(Creation::default())
    }

    /// Called after a container was created.
    async fn post_create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// Called before a container starts.
    ///
    /// # Errors
    /// An error prevents the start.
    async fn start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// Called after a container started.
    async fn post_start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// Called before a container's resources change to `resources`. A returned update of this
    /// container overrides `resources` field by field.
    ///
    /// # Errors
    /// An error prevents the update.
    async fn update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        let _ = (session, pod, container, resources);
        Ok(Changes::default())
    }

    /// Called after a container's resources changed.
    async fn post_update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// Called after a container stopped. Returns updates of other containers.
    async fn stop_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<ContainerUpdate>> {
        let _ = (session, pod, container);
        Ok(Vec::new())
    }

    /// Called after a container was removed.
    async fn remove_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// Validates the merged adjustment of a container, after all plugins replied to its creation.
    ///
    /// # Errors
    /// An error rejects the creation; its text is the reason.
    async fn validate_container_adjustment(
        &self,
        session: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        let _ = (session, request);
        Ok(())
    }
}

/// Reply to the creation of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Creation {
    /// Changes of the container.
    pub adjustment: Adjustment,
    /// Updates of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Other containers to stop.
    pub evictions: Vec<ContainerEviction>,
}

/// Reply to the update of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Updates of this container and of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop.
    pub evictions: Vec<ContainerEviction>,
}

impl From<Adjustment> for Creation {
    fn from(adjustment: Adjustment) -> Self {
        Self { adjustment, ..Self::default() }
    }
}

impl From<Update> for Changes {
    fn from(update: Update) -> Self {
        Self { updates: vec![update.into()], ..Self::default() }
    }
}
