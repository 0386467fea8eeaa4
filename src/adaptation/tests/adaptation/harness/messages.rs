//! Messages that tests send and compare.

use nri_api::proto::*;

pub(crate) fn pod(id: &str) -> PodSandbox {
    PodSandbox { id: id.into(), name: "pod".into(), ..Default::default() }
}

pub(crate) fn container(id: &str) -> Container {
    Container {
        id: id.into(),
        pod_sandbox_id: "p".into(),
        name: "container".into(),
        ..Default::default()
    }
}

/// Returns a reply that sets an annotation.
pub(crate) fn annotate(key: &str, value: &str) -> CreateContainerResponse {
    let mut adjust = ContainerAdjustment::new();
    adjust.annotations.insert(key.into(), value.into());
    CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() }
}

/// Returns an update of a container's CPU shares.
pub(crate) fn shares(id: &str, shares: u64) -> ContainerUpdate {
    let mut update = ContainerUpdate { container_id: id.into(), ..Default::default() };
    let cpu = update
        .linux
        .mut_or_insert_default()
        .resources
        .mut_or_insert_default()
        .cpu
        .mut_or_insert_default();
    cpu.shares = nri_api::opt(Some(shares));
    update
}
