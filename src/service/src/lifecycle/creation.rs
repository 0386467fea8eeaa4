//! A creation, from its first request to plugins until the runtime has created the container, and
//! its undo. `create`, `run`, `restore` and recovery have these steps in common:
//!
//! | step | what was done | how it is undone |
//! |---|---|---|
//! | [`Drafted`] | the pod was announced to plugins | the pod is removed, if it is empty |
//! | [`Consulted`] | plugins received the creation | those plugins get stop and removal |
//! | [`Recorded`] | the record was written, then: | the record is removed, last |
//! | | updates of other containers | put back |
//! | | marker for `exec`, bundle | removed |
//! | created | the runtime has the container | the runtime deletes it |
//!
//! If a step fails, the one before it, which called it, undoes both and all before them. The record
//! is what remains of a creation if `nrid` ends: the next one undoes it, or
//! follows the wrapper that has its reply.
//!
//! Before the runtime is called, those plugins get stop and removal that received the creation;
//! afterwards all. Where `run` has no hook of ours, the creation of the container is not reported,
//! and updates of other containers stay.

use crate::{
    error::{CallerError, Error},
    resources::{enforce::IfNotEffective, update::LOCK_TIMEOUT},
    service::Service,
    state::{
        cgroups::Nested, locked::LockedContainer, locks::ContainerLock, pods::PodReservation,
        record::Record, registry::Registry, status::RuntimeProgress,
    },
};
use nri_adaptation::RequestContext;
use nri_api::proto::{self, ContainerState, PodSandbox};
use nri_files::AuditEvent;

/// A creation whose pod was, or is about to be, announced to plugins.
#[must_use]
#[derive(Debug)]
pub struct Drafted {
    pod: String,
    reservation: PodReservation,
}

impl Drafted {
    /// Reserves the pod of a creation.
    pub fn new(registry: &Registry, pod: &str) -> Self {
        Self { pod: pod.to_owned(), reservation: registry.pods.reserve(pod) }
    }

    /// Returns the result of the next step. If it failed, undoes this one.
    ///
    /// # Errors
    /// Those of the next step.
    pub async fn then<T>(self, service: &Service, next: Result<T, Error>) -> Result<T, Error> {
        let Self { pod, reservation } = self;
        drop(reservation);
        if next.is_err() {
            service.remove_empty_pod(&pod).await;
        }
        next
    }
}

/// A creation that plugins have received: they may have allocated something for the container.
#[must_use]
#[derive(Debug)]
pub struct Consulted<'a> {
    /// The plugins that have received it.
    pub context: &'a RequestContext,
    /// The pod, as they received it.
    pub pod: PodSandbox,
    /// The container, as they received it.
    pub container: proto::Container,
}

impl Consulted<'_> {
    /// Returns the result of the next step. If it failed, undoes this one.
    ///
    /// # Errors
    /// Those of the next step.
    pub async fn then<T>(self, service: &Service, next: Result<T, Error>) -> Result<T, Error> {
        let Self { context, pod, mut container } = self;
        if next.is_err() {
            container.state = ContainerState::CONTAINER_STOPPED.into();
            let commit = async |outcome| service.apply_stop_outcome(outcome).await;
            service.plugins.adaptation.roll_back_creation(context, pod, container, commit).await;
        }
        next
    }
}

/// A creation with a record, whose runtime has not reported a container. Dropped only if `nrid`
/// ends.
#[must_use]
#[derive(Debug)]
pub struct Recorded {
    container: LockedContainer,
    is_over: bool,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.is_over {
            let container = &self.container.key().id;
            tracing::warn!(container, "creation interrupted, the next nrid completes or undoes it");
        }
    }
}

impl Recorded {
    /// Adds the container of a creation, whose lock is held.
    ///
    /// # Errors
    /// Its cgroup would be inside that of another container, or contain it, or the record cannot be
    /// written; then nothing has changed.
    pub fn insert(
        registry: &Registry,
        lock: &ContainerLock,
        record: Record,
    ) -> Result<Self, Error> {
        if let Some(Nested { cgroup, place, other }) = registry.nested(&record) {
            let other = other.key().id.clone();
            return Err(CallerError::ForeignCgroup { cgroup, place, other }.into());
        }
        Ok(Self { container: registry.insert_locked(lock, record)?, is_over: false })
    }

    /// Returns the container.
    pub fn container(&self) -> &LockedContainer {
        &self.container
    }

    /// Leaves the creation to whoever follows the runtime's process.
    pub fn follow(mut self) -> LockedContainer {
        self.is_over = true;
        self.container.clone()
    }

    /// Returns the result of what the record stands for. If it failed, undoes this step. Plugins
    /// are not notified: this is part of the commit of their replies.
    ///
    /// # Errors
    /// Those of the result.
    pub async fn then<T>(self, service: &Service, next: Result<T, Error>) -> Result<Self, Error> {
        match next {
            Ok(_) => Ok(self),
            Err(error) => {
                let container = self.follow();
                service.resource_manager.undo_updates(&container, LOCK_TIMEOUT).await;
                let state_dir = &service.settings().state_dir;
                service.registry.remove_files(state_dir, &container.record());
                Err(error)
            }
        }
    }

    /// Undoes a creation whose runtime has failed, and all its steps: notifies plugins, too.
    pub async fn fail(self, service: &Service) {
        let container = self.follow();
        container.set_runtime_progress(RuntimeProgress::Deleted);
        service.resource_manager.undo_updates(&container, LOCK_TIMEOUT).await;
        service.on_removed(&container).await;
    }

    /// Completes a creation whose runtime has created the container.
    ///
    /// # Errors
    /// The resources set by plugins are not effective. Then the container is deleted, and all steps
    /// are undone.
    pub async fn created(
        self,
        service: &Service,
        pid: Option<i32>,
    ) -> Result<LockedContainer, Error> {
        let confirmed = service.confirm_created(&self.container, pid, IfNotEffective::Refuse);
        let Err(error) = confirmed else { return Ok(self.follow()) };
        let record = self.container.record();
        let line = service.audit_line(&record, AuditEvent::Refusal);
        service.audit_refusal(line, "create", &error);
        if let Err(error) = record.runtime.delete(&record.key.id).await {
            let message = "cannot delete the container of a failed creation";
            tracing::error!(container = record.key.id, pod = record.pod_id, %error, "{message}");
        }
        self.fail(service).await;
        Err(error)
    }
}
