//! What plugins hear of a container's and a pod's life after the creation was agreed on: each event
//! once and in order.
//!
//! The caller holds the container's lane in all of these.

use crate::{
    bundle::{config_json::Bundle, exec_marker},
    host::runtime::State,
    resources::{apply::By, cgroups},
    service::{DELETE_PATIENCE, Service},
    state::{
        record::{Key, Phase, PodRecord, Record, start_time},
        registry::Container,
    },
    verb::shadow::tell_refusals,
};
use nri_adaptation::{AdaptError, RequestContext, StopOutcome};
use nri_api::proto::{self, PodSandbox};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Builds a request that carries a pod and a container.
macro_rules! about {
    ($request:ident, $pod:expr, $container:expr) => {
        proto::$request {
            pod: Some($pod).into(),
            container: Some($container).into(),
            ..Default::default()
        }
    };
}

pub(crate) use about;

/// Builds a request that carries a pod.
macro_rules! about_pod {
    ($request:ident, $pod:expr) => {
        proto::$request { pod: Some($pod).into(), ..Default::default() }
    };
}

impl Record {
    /// Takes over what the runtime says of the container.
    pub fn note_state(&mut self, state: &State) {
        if state.pid > 0 {
            self.note_created(state.pid);
        }
        match state.status.as_str() {
            "created" if self.phase == Phase::Creating => self.phase = Phase::Created,
            "running" | "paused" => self.note_running(),
            _ => {}
        }
    }

    /// Takes over that the first process runs.
    pub fn note_running(&mut self) {
        if self.phase < Phase::Running {
            self.phase = Phase::Running;
            self.container.started_at = now();
        }
    }

    /// Takes over that the first process has ended, with its wait status where it is known, and
    /// whether the kernel killed for memory.
    pub fn note_stopped(&mut self, status: Option<i32>, oom_killed: bool) {
        self.container.finished_at = now();
        if let Some(status) = status {
            // As a shell tells it.
            let signal = status & 0x7f;
            self.container.exit_code =
                if signal == 0 { (status >> 8) & 0xff } else { 128 + signal };
            let reason = if status == 0 { "Completed" } else { "Error" };
            self.container.status_reason = reason.to_owned();
        }
        if oom_killed && status != Some(0) {
            self.container.status_reason = "OOMKilled".to_owned();
        }
        self.phase = Phase::Stopped;
        self.pid = None;
        self.start_time = None;
    }

    /// Takes over the first process's id.
    pub fn note_pid(&mut self, pid: i32) {
        if self.pid != Some(pid) {
            self.pid = Some(pid);
            self.start_time = start_time(pid);
        }
    }

    /// Takes over the first process's id at the creation: where it is now, its container is.
    pub fn note_created(&mut self, pid: i32) {
        self.note_pid(pid);
        if self.cgroups.is_none() {
            self.cgroups = Some(cgroups::membership(pid)).filter(|text| !text.is_empty());
        }
    }

    /// Whether the first process is known to have ended.
    pub fn process_is_gone(&self) -> bool {
        match (self.pid, self.start_time) {
            (Some(pid), Some(started)) => start_time(pid) != Some(started),
            // It was gone when we first looked.
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

impl Service {
    /// The runtime has created the container.
    pub async fn created(self: &Arc<Self>, container: &Arc<Container>, pid: Option<i32>) {
        let record = self.registry.change(container, |r| {
            r.phase = r.phase.max(Phase::Created);
            if let Some(pid) = pid {
                r.note_created(pid);
            }
        });
        container.is_there();
        self.watch(container);
        self.note_pod_process(&record);
        if record.sandbox {
            return;
        }
        let (pod, message) = self.registry.messages(container);
        drop(self.adaptation.post_create_container(about!(
            PostCreateContainerRequest,
            pod,
            message
        )));
    }

    /// The container is about to start.
    ///
    /// # Errors
    /// A plugin refuses.
    pub async fn starting(&self, container: &Container) -> Result<(), AdaptError> {
        let record = container.record();
        self.note_pod_addresses(&record).await;
        if record.sandbox {
            return self.run_sandbox(&record).await;
        }
        if container.is_start_told() {
            return Ok(());
        }
        let (pod, message) = self.registry.messages(container);
        let (asking, request) = (self.asking(), about!(StartContainerRequest, pod, message));
        let told = self.adaptation.start_container(request, &asking, async || ()).await;
        if told.is_ok() {
            container.set_start_told();
        }
        tell_refusals(asking);
        told
    }

    /// The container has started.
    pub async fn running(&self, container: &Container) {
        let record = self.registry.change(container, Record::note_running);
        if !record.sandbox {
            let (pod, message) = self.registry.messages(container);
            drop(self.adaptation.post_start_container(about!(
                PostStartContainerRequest,
                pod,
                message
            )));
        }
    }

    /// The container's process has ended: plugins hear of it, once.
    pub async fn stop_if_owed(&self, container: &Container) {
        let record = container.record();
        if record.phase == Phase::Stopped {
            return;
        }
        let status = container.process().and_then(|process| process.wait_status());
        let oom_killed = container.was_oom_killed(status).await;
        let stopped = || {
            self.registry.change(container, |r| r.note_stopped(status, oom_killed));
        };
        if record.sandbox {
            self.stop_ended_members(&record).await;
            stopped();
            return self.stop_pod(&record.pod_id).await;
        }
        let (pod, _) = self.registry.messages(container);
        let mut gone = record.clone();
        gone.note_stopped(status, oom_killed);
        self.tell_stopped(pod, gone.message(), stopped).await;
        self.stop_made_pod(&record).await;
    }

    /// Containers that ended before their pod's sandbox stop before it, also where another verb of
    /// theirs is under way yet. Who holds a member's lane waits for no sandbox's.
    async fn stop_ended_members(&self, sandbox: &Record) {
        let deadline = tokio::time::Instant::now() + DELETE_PATIENCE;
        for member in self.registry.all() {
            if !member.is_live_member_of(&sandbox.pod_id) {
                continue;
            }
            let record = member.record();
            if !(record.process_is_gone() || member.is_gone()) {
                continue;
            }
            let lane = async {
                self.wait_for_start(&member).await;
                self.lane(&record.key).await
            };
            let Ok(_lane) = tokio::time::timeout_at(deadline, lane).await else {
                tracing::warn!(
                    container = record.key.id,
                    "it ended before its pod, which is told first"
                );
                continue;
            };
            if let Some(process) = member.process() {
                process.reaped().await;
            }
            let known = self.registry.get(&record.key);
            if known.is_some_and(|known| Arc::ptr_eq(&known, &member)) {
                Box::pin(self.stop_if_owed(&member)).await;
            }
        }
    }

    /// `then` is what makes the container a stopped one for plugins that register later.
    async fn tell_stopped(&self, pod: PodSandbox, message: proto::Container, then: impl FnOnce()) {
        let request = about!(StopContainerRequest, pod, message);
        self.adaptation
            .stop_container(request, async |outcome: StopOutcome| {
                then();
                self.commit_stop(outcome).await;
            })
            .await;
    }

    async fn commit_stop(&self, outcome: StopOutcome) {
        for failed in
            self.keeper.set_all(outcome.updates.updates, By::Merged(&outcome.updates.owners)).await
        {
            tracing::error!(
                container = failed.update.container_id,
                error = %failed.error,
                "update at a stop failed"
            );
        }
        self.keeper.evict_all(outcome.updates.evictions);
    }

    /// The container is no more.
    pub async fn finish(&self, container: &Container) {
        self.stop_if_owed(container).await;
        let record = container.record();
        let _claim = self.claims.keep(&record.container.id, &record.key);
        container.set_gone();
        self.give_back(&record).await;
        if record.sandbox {
            self.forget(&record.key);
            // Its containers may outlive it; then the pod ends with the last of them.
            self.registry.change_pod(&record.pod_id, |pod| (pod.real, pod.shared) = (false, true));
            return self.leave_pod(&record.pod_id).await;
        }
        let (pod, message) = self.registry.messages(container);
        let request = about!(RemoveContainerRequest, pod, message);
        self.adaptation.remove_container(request, async || self.forget(&record.key)).await;
        self.leave_pod(&record.pod_id).await;
    }

    /// Gives the engine its document back, unless another container has the same one from us: then
    /// it comes back with the last of them. The caller must not have the bundle's turn.
    pub async fn give_back(&self, record: &Record) {
        if record.bundle.written.is_none() {
            return;
        }
        let turn = self.lane_within(&Key::of_bundle(record.bundle.identity), DELETE_PATIENCE).await;
        // Whoever has the turn for so long knows the original from this record, and gives it back
        // in the end.
        if turn.is_none() {
            tracing::warn!(
                container = record.key.id,
                "somebody else has the turn at the bundle for long: its document stays"
            );
        } else if !self.registry.shares_document(record) {
            restore_document(record);
        }
    }

    /// Drops all that is kept of a container.
    pub fn forget(&self, key: &Key) {
        // The record last: it is what a successor finds.
        exec_marker::forget(&self.settings().state_dir, key);
        self.registry.remove(key);
    }

    /// A creation that plugins were asked for does not come about.
    pub async fn tell_undone(
        &self,
        asking: &RequestContext,
        pod: PodSandbox,
        container: proto::Container,
    ) {
        let gone = proto::Container {
            state: proto::ContainerState::CONTAINER_STOPPED.into(),
            ..container
        };
        self.adaptation
            .roll_back_creation(asking, pod, gone, async |outcome| self.commit_stop(outcome).await)
            .await;
    }

    /// Tells that a pod runs, and keeps it.
    ///
    /// # Errors
    /// A plugin refuses; those that were asked hear that the pod is gone.
    pub async fn run_pod(&self, pod: PodRecord) -> Result<(), AdaptError> {
        let request = about_pod!(RunPodSandboxRequest, pod.sandbox.clone());
        let (asking, sandbox) = (self.asking(), pod.sandbox.clone());
        let commit = async || self.registry.set_pod(pod);
        let told = self.adaptation.run_pod_sandbox(request, &asking, commit).await;
        if told.is_err() {
            self.adaptation.roll_back_pod(&asking, sandbox).await;
        }
        tell_refusals(asking);
        told
    }

    /// The pod's record, if this container is the one that holds the pod's namespaces.
    fn pod_of_holder(&self, record: &Record) -> Option<PodRecord> {
        let holds = record.sandbox || record.pod_id == record.container.id;
        self.registry.pod(&record.pod_id).filter(|_| holds)
    }

    fn note_pod_process(&self, record: &Record) {
        if self.pod_of_holder(record).is_some() {
            let pid = record.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
            self.registry.change_pod(&record.pod_id, |pod| pod.sandbox.pid = pid);
        }
    }

    /// Engines have connected the network by the time of the start.
    async fn note_pod_addresses(&self, record: &Record) {
        let Some((pod, pid)) = self.pod_of_holder(record).zip(record.pid) else { return };
        let separate = record.container.linux.namespaces.iter().any(|n| n.type_ == "network");
        if !separate || !pod.sandbox.ips.is_empty() {
            return;
        }
        let ips = crate::host::network::addresses(pid).await;
        if !ips.is_empty() {
            self.registry.change_pod(&record.pod_id, |pod| pod.sandbox.ips = ips);
        }
    }

    async fn run_sandbox(&self, record: &Record) -> Result<(), AdaptError> {
        let Some(mut pod) = self.registry.pod(&record.pod_id).filter(|p| !p.told_run) else {
            return Ok(());
        };
        pod.told_run = true;
        self.run_pod(pod).await
    }

    async fn stop_pod(&self, id: &str) {
        let Some(pod) = self.registry.pod(id).filter(|p| p.told_run && !p.told_stop) else {
            return;
        };
        let request = about_pod!(StopPodSandboxRequest, pod.sandbox);
        let stopped = async || {
            self.registry.change_pod(id, |pod| pod.told_stop = true);
        };
        self.adaptation.stop_pod_sandbox(request, stopped).await;
    }

    /// A pod that was made up for one container stops with it. One that several share goes on:
    /// another container may enter it.
    async fn stop_made_pod(&self, record: &Record) {
        if self.registry.pod(&record.pod_id).is_some_and(|p| !p.real && !p.shared) {
            self.stop_pod(&record.pod_id).await;
        }
    }

    async fn remove_pod(&self, id: &str) {
        self.stop_pod(id).await;
        let Some(pod) = self.registry.pod(id) else { return };
        if pod.told_run {
            let request = about_pod!(RemovePodSandboxRequest, pod.sandbox);
            self.adaptation
                .remove_pod_sandbox(request, async || self.registry.remove_pod(id))
                .await;
        } else {
            self.registry.remove_pod(id);
        }
    }

    /// Ends a pod that was made up if it has no container left. The pod's lane is the last that
    /// anybody takes.
    pub async fn leave_pod(&self, id: &str) {
        let _lane = self.lane(&Key::of_pod(id)).await;
        if self.registry.pod(id).is_some_and(|p| !p.real) && self.registry.is_deserted(id) {
            self.remove_pod(id).await;
        }
    }
}

/// Gives the engine its document back, if what stands there is what we wrote.
pub fn restore_document(record: &Record) {
    let (Some(original), Some(written)) = (&record.bundle.original, &record.bundle.written) else {
        return;
    };
    // Most engines have removed the bundle by now, or will.
    let Ok(bundle) = Bundle::open(&record.bundle.dir, &record.bundle.name) else { return };
    // Another directory may stand at the path: it is nothing to us.
    if bundle.identity().is_ok_and(|i| i != record.bundle.identity) {
        return;
    }
    bundle.sweep();
    let Ok(found) = bundle.read() else { return };
    if found.link.is_some() || crate::bundle::config_json::digest(&found.bytes) != *written {
        return;
    }
    let link = record.bundle.link.as_ref();
    if let Err(error) = bundle.give_back(original.as_bytes(), link, &found, written) {
        tracing::warn!(%error, "cannot give the engine its document back");
    }
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
