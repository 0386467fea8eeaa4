//! Names of containers and of their pods as the engine has them now.

use crate::{
    engine::docker_names::DockerContainer,
    service::Service,
    state::{
        container::Container,
        pod::{PodKind, PodRecord},
        registry::Registry,
    },
};
use std::{collections::HashMap, sync::Arc};

impl Service {
    /// Learns the names that Docker has given containers since they were created.
    pub(super) async fn refresh_names(&self) {
        // The engine's pods have the names of their containers in themselves.
        let can_be_renamed = |c: &Arc<Container>| {
            let record = c.record();
            record.engine.is_docker() && record.pod_id == record.nri_id()
        };
        let containers = self.registry.all().into_iter().filter(can_be_renamed);
        let containers: HashMap<String, Arc<Container>> = containers
            .map(|container| {
                let record = container.record();
                (record.key.hook_name(record.incarnation), container.clone())
            })
            .collect();
        let named = containers.iter().map(|(key, container)| DockerContainer {
            key: key.clone(),
            id: container.key().id.clone(),
        });
        let sources = |named: &DockerContainer| {
            let mounts = containers.get(&named.key).map(|c| c.record().container.get().mounts);
            mounts.unwrap_or_default().into_iter().map(|mount| mount.source).collect()
        };
        for (key, name) in self.engines.docker_names.changed(named.collect(), sources).await {
            let Some(container) = containers.get(&key) else { continue };
            self.registry.change_if(container, |record| {
                let is_new = record.container.text(&["name"]) != name;
                if is_new {
                    record.container.change(|container| container.name = name);
                }
                is_new
            });
        }
    }
}

/// Returns the name of a pod. A pod that was made for one container has the container's name.
pub(super) fn pod_name(registry: &Registry, pod: &PodRecord) -> String {
    let member = match pod.kind {
        PodKind::SingleContainer => registry.of_pod(pod.id()).into_iter().next(),
        PodKind::Sandbox | PodKind::Shared => None,
    };
    let name = member.map(|member| member.record().container.text(&["name"]).to_owned());
    name.unwrap_or_else(|| pod.sandbox.text(&["name"]).to_owned())
}
