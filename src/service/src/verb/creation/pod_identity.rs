//! Identity of pods that are not of Kubernetes: the namespace and the uid that plugins expect of a
//! pod, and that engines like Docker and Podman do not have.

use crate::{state::key::ContainerKey, verb::creation::draft::Draft};
use nri_config::PodSettings;
use nri_engine::{EngineKind, Role};

impl Draft {
    /// Adds a namespace and a uid to the pod, unless the pod is of Kubernetes. The same container
    /// or pod gets the same uid again, after a restart of the container, of `nrid` and of the host.
    pub(super) fn complete_pod(&mut self, settings: &PodSettings) {
        let identity = &mut self.identity;
        let id = match identity.role {
            Role::Alone => &self.key.id,
            _ if identity.engine == EngineKind::Podman => &identity.pod.id,
            _ => return,
        };
        let key = ContainerKey { root: self.key.root.clone(), id: id.clone() };
        identity.pod.uid = key.uuid();
        identity.pod.namespace.clone_from(&settings.namespace);
    }
}
