//! Recognizes cri-dockerd (and its predecessor dockershim): Kubernetes on Docker. All facts are in
//! Docker's labels; CRI annotations are labels with a prefix.
//!
//! An image can set labels, but not the name of the container, so labels are used only for
//! containers whose names have kubelet's form. Sources: cri-dockerd, `core/docker_service.go`,
//! `core/helpers.go`, `core/naming.go`.

use crate::{EngineKind, Identity, Map, Pod, Role, kubernetes};

const TYPE: &str = "io.kubernetes.docker.type";
const SANDBOX_ID: &str = "io.kubernetes.sandbox.id";
const LOG_PATH: &str = "io.kubernetes.container.logpath";
const ANNOTATION: &str = "annotation.";

/// Changes the identity of a Docker container to that of a container in a Kubernetes pod, if
/// kubelet set the labels and the name. Returns whether the identity was changed.
pub(crate) fn complete(identity: &mut Identity, id: &str, name: &str) -> bool {
    let Some(names) = kubernetes::of_container(name) else { return false };
    let label = |key: &str| identity.labels.get(key).filter(|v| !v.is_empty()).cloned();
    let (role, sandbox) = match (label(TYPE).as_deref(), label(SANDBOX_ID)) {
        (Some("podsandbox"), _) if names.container == kubernetes::SANDBOX => {
            (Role::Sandbox, id.to_owned())
        }
        (Some("container"), Some(sandbox)) if sandbox != id => (Role::Member, sandbox),
        _ => return false,
    };
    // cri-dockerd adds these labels itself, and does not report them through CRI.
    let is_own = |key: &str| {
        [TYPE, SANDBOX_ID, LOG_PATH].contains(&key)
            || (role == Role::Sandbox && key == kubernetes::CONTAINER_NAME)
    };
    let all = std::mem::take(&mut identity.labels);
    for (key, value) in all.into_iter().filter(|(key, _)| !is_own(key)) {
        match key.strip_prefix(ANNOTATION) {
            Some(key) => identity.annotations.insert(key.to_owned(), value),
            None => identity.labels.insert(key, value),
        };
    }
    identity.engine = EngineKind::CriDockerd;
    identity.role = role;
    identity.name = names.container.to_owned();
    let of_pod = |map: &Map| if role == Role::Sandbox { map.clone() } else { Map::new() };
    identity.pod = Pod {
        id: sandbox.clone(),
        sandbox,
        labels: of_pod(&identity.labels),
        annotations: of_pod(&identity.annotations),
        cgroup_parent: std::mem::take(&mut identity.pod.cgroup_parent),
        runtime_handler: std::mem::take(&mut identity.pod.runtime_handler),
        ..Pod::default()
    };
    kubernetes::name_pod(&mut identity.pod, Some(&names), &identity.labels);
    true
}
