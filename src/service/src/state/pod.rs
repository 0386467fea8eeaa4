//! The record of a pod, in memory and on disk.

use nri_adaptation::Origin;
use nri_api::{Packed, proto::PodSandbox};
use serde::{Deserialize, Serialize};

/// Kind of a pod, which decides when the pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodKind {
    /// A pod with a sandbox container, which ends with that container.
    Sandbox,
    /// A pod that `nrid` made for one container, because the engine put that container in no pod.
    /// The pod has the container's id, and ends with the container.
    SingleContainer,
    /// A pod without a sandbox container, or whose sandbox container was removed. The pod ends with
    /// its last container.
    Shared,
}

/// A pod's status as plugins know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodStatus {
    /// Plugins have not been notified of the pod.
    New,
    /// Plugins were notified by RunPodSandbox.
    Running,
    /// Plugins were notified by StopPodSandbox.
    Stopped,
}

/// A pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "OnDisk", into = "OnDisk")]
pub struct PodRecord {
    /// The pod in messages to plugins.
    pub sandbox: Packed<PodSandbox>,
    /// Kind of the pod, which decides when the pod ends.
    pub kind: PodKind,
    /// Status as plugins know it.
    pub status: PodStatus,
    /// Engine and runtime of its containers. Not on disk: the next `nrid` has them from the
    /// records of the containers.
    pub origin: Origin,
}

/// The form on disk, which `nrid` 0.1 and later read and write. `real` is whether the pod has a
/// sandbox container, `told_run` and `told_stop` are whether plugins were notified by RunPodSandbox
/// and StopPodSandbox.
#[derive(Serialize, Deserialize)]
struct OnDisk {
    sandbox: Packed<PodSandbox>,
    real: bool,
    #[serde(default)]
    shared: bool,
    told_run: bool,
    told_stop: bool,
}

impl PodRecord {
    /// Returns the pod's id.
    pub fn id(&self) -> &str {
        self.sandbox.text(&["id"])
    }
}

impl From<OnDisk> for PodRecord {
    fn from(pod: OnDisk) -> Self {
        let kind = match (pod.real, pod.shared) {
            (true, _) => PodKind::Sandbox,
            (false, true) => PodKind::Shared,
            (false, false) => PodKind::SingleContainer,
        };
        let status = match (pod.told_run, pod.told_stop) {
            (false, _) => PodStatus::New,
            (true, false) => PodStatus::Running,
            (true, true) => PodStatus::Stopped,
        };
        Self { sandbox: pod.sandbox, kind, status, origin: Origin::default() }
    }
}

impl From<PodRecord> for OnDisk {
    fn from(PodRecord { sandbox, kind, status, .. }: PodRecord) -> Self {
        Self {
            sandbox,
            real: kind == PodKind::Sandbox,
            shared: kind == PodKind::Shared,
            told_run: status >= PodStatus::Running,
            told_stop: status == PodStatus::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_records_have_the_form_of_earlier_versions() {
        for (flags, kind, status) in [
            (
                r#""real":true,"shared":false,"told_run":false,"told_stop":false"#,
                PodKind::Sandbox,
                PodStatus::New,
            ),
            (
                r#""real":false,"shared":true,"told_run":true,"told_stop":false"#,
                PodKind::Shared,
                PodStatus::Running,
            ),
            (
                r#""real":false,"shared":false,"told_run":true,"told_stop":true"#,
                PodKind::SingleContainer,
                PodStatus::Stopped,
            ),
        ] {
            let text = format!(r#"{{"sandbox":{{"id":"p1"}},{flags}}}"#);
            let record: PodRecord = serde_json::from_str(&text).unwrap();
            assert_eq!((record.kind, record.status), (kind, status), "{text}");
            assert_eq!(record.id(), "p1");
            assert_eq!(serde_json::to_string(&record).unwrap(), text);
        }
        let old = r#"{"sandbox":{},"real":false,"told_run":true,"told_stop":false}"#;
        let record: PodRecord = serde_json::from_str(old).unwrap();
        assert_eq!(record.kind, PodKind::SingleContainer);
    }
}
