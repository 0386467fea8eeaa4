//! What an author implements: a method per event, all optional.

use crate::{Adjustment, EventMask, Session, Update};
use async_trait::async_trait;
use nri_api::proto::*;

/// Why a handler fails; its text is what the runtime gets to see.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a handler returns.
pub type Reply<T> = Result<T, Failure>;

/// An NRI plugin.
///
/// The runtime sends one event at a time to a plugin and waits for the answer, up to a timeout
/// ([`RuntimeInfo::request_timeout`](crate::RuntimeInfo)). After that it goes on without, and
/// events may overlap. A handler always runs to its end. A panic in one fails its event only.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// The events that the plugin wants to hear, asked after [`configure`](Self::configure). An
    /// empty set subscribes to all of them: that is how the protocol reads it.
    fn events(&self) -> EventMask;

    /// The contents of the plugin's configuration file, or nothing. Runtimes send it to launched
    /// plugins only. What the runtime is like is in [`Session::runtime`]. A failure ends the
    /// session.
    async fn configure(&self, session: &Session, config: &str) -> Reply<()> {
        let _ = (session, config);
        Ok(())
    }

    /// All pods and containers that exist. May update some.
    async fn synchronize(
        &self,
        session: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<ContainerUpdate>> {
        let _ = (session, pods, containers);
        Ok(Vec::new())
    }

    /// The runtime takes its leave; it closes the connection next.
    async fn shutdown(&self, session: &Session) {
        let _ = session;
    }

    /// A pod is being run. A failure fails it.
    async fn run_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// A pod's resources are about to change to these. A failure fails that.
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

    /// A pod's resources have changed.
    async fn post_update_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// A pod stopped.
    async fn stop_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// A pod was removed.
    async fn remove_pod_sandbox(&self, session: &Session, pod: PodSandbox) -> Reply<()> {
        let _ = (session, pod);
        Ok(())
    }

    /// A container is being created, and is shown as adjusted by the plugins before this one. A
    /// failure fails it.
    async fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let _ = (session, pod, container);
        Ok(Creation::default())
    }

    /// A container was created.
    async fn post_create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// A container is being started. A failure fails it.
    async fn start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// A container was started.
    async fn post_start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// A container's resources are about to change to these. An update of this very container takes
    /// their place field by field. A failure fails the update.
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

    /// A container's resources have changed.
    async fn post_update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// A container stopped. May update others.
    async fn stop_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<ContainerUpdate>> {
        let _ = (session, pod, container);
        Ok(Vec::new())
    }

    /// A container was removed.
    async fn remove_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        let _ = (session, pod, container);
        Ok(())
    }

    /// All that the plugins want changed in a container that is being created. A failure rejects
    /// the creation, and its text is the reason.
    async fn validate_container_adjustment(
        &self,
        session: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        let _ = (session, request);
        Ok(())
    }
}

/// Answer to the creation of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Creation {
    /// What is to be changed in it.
    pub adjustment: Adjustment,
    /// Updates of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Other containers that are to be stopped.
    pub evictions: Vec<ContainerEviction>,
}

/// Answer to the update of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Updates of this container and of others.
    pub updates: Vec<ContainerUpdate>,
    /// Containers that are to be stopped.
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
