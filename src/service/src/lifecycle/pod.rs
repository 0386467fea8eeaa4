//! Transitions of a pod: New -> Running -> Stopped -> removed. Plugins are notified of each
//! transition once.

use crate::{
    host::network,
    lifecycle::{pod_process, request::pod_request},
    service::Service,
    state::{
        pod::{PodKind, PodRecord, PodStatus},
        record::Record,
    },
};
use nri_adaptation::AdaptError;
use nri_api::proto::PodSandbox;

impl Service {
    /// New -> Running: sends RunPodSandbox to plugins, and adds the pod.
    ///
    /// # Errors
    /// A plugin refuses. Plugins that received the request are notified of the pod's removal.
    pub async fn run_pod(&self, pod: PodRecord) -> Result<(), AdaptError> {
        let pod = PodRecord { status: PodStatus::Running, ..pod };
        let sandbox = pod.sandbox.get();
        let request = pod_request!(RunPodSandboxRequest, sandbox.clone());
        let context = self.request_context().with_origin(pod.origin.clone());
        let commit = async || self.registry.pods.set(pod);
        tracing::debug!(pod = sandbox.id, "pod starts");
        let result = self.plugins.adaptation.run_pod_sandbox(request, &context, commit).await;
        if result.is_err() {
            self.plugins.adaptation.roll_back_pod(&context, sandbox).await;
        }
        self.log_refusals(context);
        result
    }

    /// Sends RunPodSandbox to plugins when the pod's sandbox container starts, unless they have
    /// received it already.
    ///
    /// # Errors
    /// A plugin refuses.
    pub(super) async fn request_sandbox_start(&self, record: &Record) -> Result<(), AdaptError> {
        match self.registry.pods.get(&record.pod_id) {
            Some(pod) if pod.status == PodStatus::New => self.run_pod(pod).await,
            _ => Ok(()),
        }
    }

    /// Running -> Stopped: notifies plugins by StopPodSandbox. Does nothing in another status.
    pub(super) async fn stop_pod(&self, id: &str) {
        let Some(pod) = self.registry.pods.get(id).filter(|p| p.status == PodStatus::Running)
        else {
            return;
        };
        tracing::debug!(pod = id, "pod stops");
        let mut stopped = pod.sandbox;
        stopped.change(pod_process::clear);
        let request = pod_request!(StopPodSandboxRequest, stopped.get());
        let commit = async || {
            self.registry.pods.change(id, |pod| {
                pod.status = PodStatus::Stopped;
                pod.sandbox = stopped;
            });
        };
        self.plugins.adaptation.stop_pod_sandbox(request, commit).await;
    }

    /// Stops the pod of a stopped container if `nrid` made the pod for this container alone. A
    /// shared pod keeps running, since another container may be added. A sandbox pod stops with its
    /// sandbox container.
    pub(super) async fn stop_single_container_pod(&self, record: &Record) {
        let pod = self.registry.pods.get(&record.pod_id);
        if pod.is_some_and(|pod| pod.kind == PodKind::SingleContainer) {
            self.stop_pod(&record.pod_id).await;
        }
    }

    /// Removes a pod that has no sandbox container and no other container. The caller must not hold
    /// a pod lock.
    pub async fn remove_empty_pod(&self, id: &str) {
        let _lock = self.verbs.locks.pod(id).await;
        let has_no_sandbox = self.registry.pods.get(id).is_some_and(|p| p.kind != PodKind::Sandbox);
        if has_no_sandbox && self.registry.is_empty_pod(id) {
            self.remove_pod(id).await;
        }
    }

    /// Stops the pod if it runs, notifies plugins by RemovePodSandbox if they know the pod, and
    /// removes it.
    async fn remove_pod(&self, id: &str) {
        self.stop_pod(id).await;
        let Some(pod) = self.registry.pods.get(id) else { return };
        if pod.status == PodStatus::New {
            return self.registry.pods.remove(id);
        }
        tracing::debug!(pod = id, "pod is removed");
        let request = pod_request!(RemovePodSandboxRequest, pod.sandbox.get());
        self.plugins
            .adaptation
            .remove_pod_sandbox(request, async || self.registry.pods.remove(id))
            .await;
    }

    /// Returns the container's pod, if the container holds the pod's namespaces.
    fn pod_of_holder(&self, record: &Record) -> Option<PodRecord> {
        let is_holder = record.sandbox || record.pod_id == record.nri_id();
        self.registry.pods.get(&record.pod_id).filter(|_| is_holder)
    }

    /// Records the container's process, cgroup and network namespace as those of the pod, if the
    /// container holds the pod's namespaces.
    pub(super) fn set_pod_process(&self, record: &Record) {
        if self.pod_of_holder(record).is_some() {
            let pid = record.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
            let cgroup = record.container.text(&["linux", "cgroups_path"]);
            self.registry.pods.change(&record.pod_id, |pod| {
                pod.sandbox.change(|pod| pod_process::set(pod, pid, cgroup));
            });
        }
    }

    /// Returns the container's pod for a message about the container's end: without the process, if
    /// that was the container's.
    pub(super) fn pod_of_ended(&self, record: &Record) -> PodSandbox {
        let mut pod = self.registry.pod_message(record);
        if self.pod_of_holder(record).is_some() {
            pod_process::clear(&mut pod);
        }
        pod
    }

    /// Records the pod's IP addresses. Engines connect the network before a start.
    pub(super) async fn set_pod_addresses(&self, record: &Record) {
        let Some((pod, pid)) = self.pod_of_holder(record).zip(record.pid) else { return };
        if !pod.sandbox.text(&["ips"]).is_empty() {
            return;
        }
        let namespaces = &record.container.get().linux.namespaces;
        if !namespaces.iter().any(|n| n.type_ == "network") {
            return;
        }
        let ips = network::addresses(pid).await;
        if !ips.is_empty() {
            self.registry.pods.change(&record.pod_id, |pod| pod.sandbox.change(|p| p.ips = ips));
        }
    }
}
