//! Transitions of a container: Creating -> Created -> Starting -> Running -> Stopped -> removed.
//!
//! One function per transition, called by whatever detects the change: a verb, our hook, the exit
//! watch, reconciliation, or the search for vanished containers. A sandbox stops those of its
//! members that have ended, and a removal stops the container first. Plugins are notified of each
//! transition once, and in this order. Only two change the status without an event: recovery
//! (`recovery.rs`), before plugins connect, and a snapshot, for a `run` without our hook.

use crate::{
    bundle::own,
    error::Error,
    lifecycle::request::container_request,
    plugins::effects::Effects,
    resources::{enforce::IfNotEffective, update::LOCK_TIMEOUT},
    service::Service,
    state::{
        container::Container,
        locked::LockedContainer,
        pod::PodKind,
        record::Record,
        status::{ContainerStatus, RuntimeProgress},
    },
};
use nri_adaptation::{AdaptError, StopOutcome};
use nri_config::Mode;
use nri_files::AuditEvent;
use nri_merge::UpdatesOutcome;
use std::{sync::Arc, time::Duration};

/// Total time that a pod's stop waits for the container locks of members that have exited. A verb
/// may hold a member's lock during a request to plugins, and the engine waits for the stop of the
/// sandbox meanwhile.
const MEMBER_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the bundle of a container stays after its deletion by a runtime that is
/// not watched: hooks of the stage `poststop` run after it, and have seconds.
const POSTSTOP_TIME: Duration = Duration::from_secs(10);

impl Service {
    /// Waits for the lock of a container. Returns `None` if the container was removed meanwhile.
    pub async fn lock(&self, container: &Arc<Container>) -> Option<LockedContainer> {
        let lock = self.verbs.locks.container(container.key()).await;
        self.registry.locked(&lock).filter(|locked| locked.is(container))
    }

    /// Takes the lock of a container. Returns `None` if a verb holds it, or if the container was
    /// removed.
    pub fn try_lock(&self, container: &Arc<Container>) -> Option<LockedContainer> {
        let lock = self.verbs.locks.try_container(container.key())?;
        self.registry.locked(&lock).filter(|locked| locked.is(container))
    }

    /// Creating -> Created: enforces the resources and notifies plugins. If the container is
    /// created already, only enforces the resources.
    ///
    /// # Errors
    /// The resources cannot be made effective, and `if_not_effective` is `Refuse`.
    pub async fn on_created(
        self: &Arc<Self>,
        container: &LockedContainer,
        pid: Option<i32>,
        if_not_effective: IfNotEffective,
    ) -> Result<(), Error> {
        let is_new = container.status() == ContainerStatus::Creating;
        self.confirm_created(container, pid, if_not_effective)?;
        if is_new {
            self.announce_created(container, pid).await;
        }
        Ok(())
    }

    /// The first half of [`Service::on_created`]. Afterwards the container can be updated, and the
    /// wrapper can get its reply.
    ///
    /// # Errors
    /// The resources cannot be made effective, and `if_not_effective` is `Refuse`.
    pub fn confirm_created(
        &self,
        container: &LockedContainer,
        pid: Option<i32>,
        if_not_effective: IfNotEffective,
    ) -> Result<(), Error> {
        // Also completes facts that could not be read when the process became known. They are
        // written together with the status: an `nrid` that finds a record without the process has
        // to call the runtime's `state`.
        let has_new_process =
            pid.or(container.record().pid).is_some_and(|pid| container.set_first_process(pid));
        self.resource_manager.enforce_created(container, if_not_effective)?;
        // Read and write in one step: a snapshot may set the status to running meanwhile, without
        // the container lock, and the status must not decrease.
        self.registry.change_if(container, |r| r.set_created() | has_new_process);
        self.resource_manager.keep_updates(container);
        Ok(())
    }

    /// The second half of [`Service::on_created`]: watches the process and notifies plugins.
    pub async fn announce_created(self: &Arc<Self>, container: &LockedContainer, pid: Option<i32>) {
        let set_process = |r: &mut Record| pid.is_some_and(|pid| r.set_process(pid));
        let record = self.registry.change_if(container, set_process);
        // `exists` marks the container as present, which the search for vanished containers needs.
        container.exists().await;
        self.watch(container);
        self.audit_event(&record, AuditEvent::Created);
        self.set_pod_process(&record);
        let (id, pod) = (&record.key.id, &record.pod_id);
        tracing::debug!(container = id, pod, pid = record.pid, "container created");
        if record.sandbox {
            return;
        }
        let (pod, message) = self.registry.messages(container);
        let request = container_request!(PostCreateContainerRequest, pod, message);
        self.plugins.adaptation.post_create_container(request);
    }

    /// Created -> Starting: sends the StartContainer request to plugins; RunPodSandbox for a
    /// sandbox.
    ///
    /// # Errors
    /// A plugin refuses.
    pub async fn request_start(&self, container: &LockedContainer) -> Result<(), AdaptError> {
        let record = container.record();
        self.set_pod_addresses(&record).await;
        if record.sandbox {
            return self.request_sandbox_start(&record).await;
        }
        if record.status >= ContainerStatus::Starting {
            return Ok(());
        }
        let (pod, message) = self.registry.messages(container);
        let (context, request) =
            (self.request_context(), container_request!(StartContainerRequest, pod, message));
        let result = self.plugins.adaptation.start_container(request, &context, async || ()).await;
        if result.is_ok() {
            container.set_starting();
        }
        self.log_refusals(context);
        result
    }

    /// Starting -> Running: notifies plugins.
    pub fn on_running(&self, container: &LockedContainer) {
        self.confirm_running(container);
        if container.record().sandbox {
            return;
        }
        let (pod, message) = self.registry.messages(container);
        let request = container_request!(PostStartContainerRequest, pod, message);
        self.plugins.adaptation.post_start_container(request);
    }

    /// The first part of [`Service::on_running`]. Afterwards the wrapper can get its reply.
    pub fn confirm_running(&self, container: &LockedContainer) {
        let mut is_new = false;
        let record = self.registry.change_if(container, |r| {
            is_new = r.set_running();
            is_new
        });
        if is_new {
            self.audit_event(&record, AuditEvent::Started);
        }
        tracing::debug!(container = record.key.id, pod = record.pod_id, "container started");
    }

    /// Any -> Stopped: notifies plugins that the first process has ended.
    pub async fn on_stopped(&self, container: &LockedContainer) {
        let record = container.record();
        if record.status == ContainerStatus::Stopped {
            return;
        }
        let was_created = record.status != ContainerStatus::Creating;
        let status = container.process().and_then(|process| process.wait_status());
        let oom_killed = container.was_oom_killed(status).await;
        let set_stopped = || {
            let stopped = self.registry.change(container, |r| r.set_stopped(status, oom_killed));
            tracing::debug!(
                container = record.key.id,
                pod = record.pod_id,
                wait_status = status,
                oom_killed,
                "container stopped"
            );
            container.release_process();
            if was_created {
                self.audit_stop(&stopped);
            }
        };
        if record.sandbox {
            self.stop_ended_members(&record).await;
            set_stopped();
            return self.stop_pod(&record.pod_id).await;
        }
        let pod = self.pod_of_ended(&record);
        let mut stopped = Record::clone(&record);
        stopped.set_stopped(status, oom_killed);
        let request = container_request!(StopContainerRequest, pod, stopped.message());
        let commit = async |outcome: StopOutcome| {
            // Plugins that register from now on receive the container as stopped.
            set_stopped();
            self.apply_stop_outcome(outcome).await;
        };
        self.plugins.adaptation.stop_container(request, commit).await;
        self.stop_single_container_pod(&record).await;
    }

    /// Calls [`Service::on_stopped`] if the first process has ended, in case that the exit watch
    /// has not done so yet.
    pub async fn on_stopped_if_ended(&self, container: &LockedContainer) {
        if container.record().process_has_ended() {
            self.on_stopped(container).await;
        }
    }

    /// Any -> removed: notifies plugins that the runtime has deleted the container, and removes its
    /// bundle and the record.
    pub async fn on_removed(&self, container: &LockedContainer) {
        // First, so that updates that plugins request with the stop are not undone.
        self.resource_manager.end_creation(container, LOCK_TIMEOUT).await;
        self.on_stopped(container).await;
        let record = container.record();
        let _claim = self.verbs.claims.claim_existing(record.nri_id(), &record.key);
        let has_ended = container.runtime_progress() == RuntimeProgress::Deleted;
        container.set_runtime_progress(RuntimeProgress::Deleted);
        tracing::debug!(container = record.key.id, pod = record.pod_id, "container removed");
        self.remove_bundle(&record, has_ended);
        if record.sandbox {
            self.registry.forget(&self.settings().state_dir, &record.key);
            self.audit_event(&record, AuditEvent::Removed);
            // Containers may outlive their sandbox. The pod then ends with the last container.
            self.registry.pods.change(&record.pod_id, |pod| pod.kind = PodKind::Shared);
            return self.remove_empty_pod(&record.pod_id).await;
        }
        let (pod, message) = self.registry.messages(container);
        let request = container_request!(RemoveContainerRequest, pod, message);
        let forget = async || {
            self.registry.forget(&self.settings().state_dir, &record.key);
            self.audit_event(&record, AuditEvent::Removed);
        };
        self.plugins.adaptation.remove_container(request, forget).await;
        self.remove_empty_pod(&record.pod_id).await;
    }

    /// Removes the bundle of a container that the runtime has deleted. `has_ended`: the runtime has
    /// ended, too, and with it the hooks of the stage `poststop`, which get the path of the bundle.
    fn remove_bundle(&self, record: &Record, has_ended: bool) {
        let Some(own) = &record.bundle.own else { return };
        let (state_dir, name) = (self.settings().state_dir.clone(), own.name.clone());
        if has_ended {
            return own::remove(&state_dir, &name);
        }
        tokio::spawn(async move {
            tokio::time::sleep(POSTSTOP_TIME).await;
            own::remove(&state_dir, &name);
        });
    }

    /// Notifies plugins of the stop of those members of a pod that have exited, before the stop of
    /// the sandbox. Waits for the lock of each such member. This cannot deadlock: a task that holds
    /// the lock of a member never waits for the lock of a sandbox.
    async fn stop_ended_members(&self, sandbox: &Record) {
        let deadline = tokio::time::Instant::now() + MEMBER_LOCK_TIMEOUT;
        for member in self.registry.of_pod(&sandbox.pod_id) {
            if member.is_sandbox() || member.status() == ContainerStatus::Stopped {
                continue;
            }
            let record = member.record();
            if !(record.process_has_ended() || member.is_deleted()) {
                continue;
            }
            let lock = async {
                self.wait_for_start(&member).await;
                self.lock(&member).await
            };
            let Ok(locked) = tokio::time::timeout_at(deadline, lock).await else {
                tracing::warn!(
                    container = record.key.id,
                    pod = sandbox.pod_id,
                    "container lock not free, plugins receive the pod's stop before the container's"
                );
                continue;
            };
            if let Some(process) = member.process() {
                process.wait_until_reaped().await;
            }
            if let Some(member) = locked {
                Box::pin(self.on_stopped(&member)).await;
            }
        }
    }

    /// Performs the updates and evictions that plugins requested in their replies to a stop.
    pub(super) async fn apply_stop_outcome(&self, outcome: StopOutcome) {
        let UpdatesOutcome { updates, evictions, owners, evictors, failed, ignored, .. } =
            &outcome.updates;
        let effects = Effects::of_replies(updates, evictions, owners, evictors);
        let requests = &self.plugins.requests;
        if self.resource_manager.policy().mode == Mode::Apply {
            requests.report_conflicts(failed);
            requests.audit_ignored(ignored);
        }
        for failed in requests.commit(&effects).await {
            tracing::error!(
                container = failed.update.container_id,
                error = %failed.error,
                "update that a plugin requested at a stop failed"
            );
        }
    }
}
