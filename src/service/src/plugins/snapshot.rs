//! The snapshot of pods and containers that synchronizes a new plugin.

use crate::state::{
    container::Container, pod::PodStatus, record::Record, registry::Registry,
    status::ContainerStatus,
};
use nri_adaptation::Snapshot;
use nri_api::proto::PodSandbox;
use std::collections::HashSet;

/// Returns the pods and containers of which plugins were notified.
pub async fn snapshot(registry: &Registry) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut pods = HashSet::new();
    let mut add = |snapshot: &mut Snapshot, pod: PodSandbox| {
        if pods.insert(pod.id.clone()) {
            snapshot.pods.push(pod);
        }
    };
    for container in registry.by_age() {
        observe_run(registry, &container).await;
        let record = container.record();
        if record.status == ContainerStatus::Stopped || is_announced_later(registry, &record) {
            continue;
        }
        let (pod, message) = registry.messages(&container);
        add(&mut snapshot, pod);
        if !record.sandbox {
            snapshot.containers.push(message);
        }
    }
    // Add the pods without containers, if plugins were notified of them.
    for pod in registry.pods.all() {
        if pod.status == PodStatus::Running {
            add(&mut snapshot, pod.sandbox.get());
        }
    }
    snapshot
}

/// Whether the record is of a sandbox that has not started. Plugins will receive the pod of
/// such a sandbox with RunPodSandbox. If the snapshot also had the pod, plugins would receive
/// the pod twice.
fn is_announced_later(registry: &Registry, record: &Record) -> bool {
    let pod = registry.pods.get(&record.pod_id);
    let is_announced = pod.is_none_or(|pod| pod.status != PodStatus::New);
    record.sandbox && record.status < ContainerStatus::Running && !is_announced
}

/// Reads the state of a container from the runtime if the container was created with `run` and
/// without our hook, since nothing then reports the container's start.
async fn observe_run(registry: &Registry, container: &Container) {
    let record = container.record();
    if !record.by_run || record.hooked || record.pid.is_some() {
        return;
    }
    if let Ok(state) = record.runtime.state(&record.key.id).await {
        registry.change(container, |r| r.observe(&state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        pod::{PodKind, PodRecord},
        store::Store,
    };
    use nri_api::Packed;

    #[tokio::test]
    async fn a_snapshot_has_the_pods_that_were_announced_and_not_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        for (id, status) in [
            ("b", PodStatus::Running),
            ("a", PodStatus::Running),
            ("stopped", PodStatus::Stopped),
            ("new", PodStatus::New),
        ] {
            let sandbox = PodSandbox { id: id.to_owned(), ..Default::default() };
            let sandbox = Packed::new(&sandbox);
            let (kind, origin) = (PodKind::SingleContainer, Default::default());
            registry.pods.set(PodRecord { sandbox, kind, status, origin });
        }
        let snapshot = snapshot(&registry).await;
        assert_eq!(snapshot.pods.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
