//! Records of pods and containers, from their first event to their removal: the content of events
//! and of the snapshots that plugins are synchronized with.

use nri_adaptation::Snapshot;
use nri_api::proto::{Container, ContainerState, LinuxResources, PodSandbox};
use nri_spec::{merge_resources, resources_to_nri};
use protobuf::MessageField;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

#[derive(Default)]
pub(crate) struct Records(Mutex<State>);

#[derive(Default)]
struct State {
    pods: BTreeMap<String, PodSandbox>,
    containers: BTreeMap<String, Container>,
}

/// Returns the newer of two optional values.
fn newer<T: Clone>(new: &MessageField<T>, old: &MessageField<T>) -> MessageField<T> {
    if new.is_some() { new.clone() } else { old.clone() }
}

impl Records {
    /// Creates the records of pods and containers that exist.
    pub(crate) fn new(existing: Snapshot) -> Self {
        let pods = existing.pods.into_iter().map(|pod| (pod.id.clone(), pod)).collect();
        let containers = existing.containers.into_iter().map(|c| (c.id.clone(), c)).collect();
        Self(Mutex::new(State { pods, containers }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A change that panicked has changed one record at most.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all pods and containers.
    pub(crate) fn all(&self) -> Snapshot {
        let state = self.lock();
        let (pods, containers) = (state.pods.values(), state.containers.values());
        Snapshot { pods: pods.cloned().collect(), containers: containers.cloned().collect() }
    }

    /// Returns what plugins are synchronized with: all but the containers that have stopped.
    pub(crate) fn alive(&self) -> Snapshot {
        let mut all = self.all();
        let stopped = ContainerState::CONTAINER_STOPPED;
        all.containers.retain(|container| container.state.enum_value() != Ok(stopped));
        all
    }

    pub(crate) fn pod(&self, id: &str) -> Result<PodSandbox, Error> {
        let pod = self.lock().pods.get(id).cloned();
        pod.ok_or_else(|| Error::UnknownPod(id.to_owned()))
    }

    /// Returns a container, and its pod. The pod is empty if it was removed first.
    pub(crate) fn container(&self, id: &str) -> Result<(PodSandbox, Container), Error> {
        let state = self.lock();
        let container = state.containers.get(id).cloned();
        let container = container.ok_or_else(|| Error::UnknownContainer(id.to_owned()))?;
        let pod = state.pods.get(&container.pod_sandbox_id).cloned().unwrap_or_default();
        Ok((pod, container))
    }

    /// Fails if a pod or container of this id exists, or if the id is empty.
    pub(crate) fn check_new_pod(&self, id: &str) -> Result<(), Error> {
        if id.is_empty() {
            return Err(Error::NoId("pod"));
        }
        let exists = self.lock().pods.contains_key(id);
        if exists { Err(Error::Exists(format!("pod {id}"))) } else { Ok(()) }
    }

    pub(crate) fn check_new_container(&self, id: &str) -> Result<(), Error> {
        if id.is_empty() {
            return Err(Error::NoId("container"));
        }
        let exists = self.lock().containers.contains_key(id);
        if exists { Err(Error::Exists(format!("container {id}"))) } else { Ok(()) }
    }

    pub(crate) fn add_pod(&self, pod: PodSandbox) {
        self.lock().pods.insert(pod.id.clone(), pod);
    }

    pub(crate) fn add_container(&self, container: Container) {
        self.lock().containers.insert(container.id.clone(), container);
    }

    pub(crate) fn remove_pod(&self, id: &str) {
        self.lock().pods.remove(id);
    }

    pub(crate) fn remove_container(&self, id: &str) {
        self.lock().containers.remove(id);
    }

    pub(crate) fn change_pod(
        &self,
        id: &str,
        change: impl FnOnce(&mut PodSandbox),
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let pod = state.pods.get_mut(id).ok_or_else(|| Error::UnknownPod(id.to_owned()))?;
        change(pod);
        pod.id = id.to_owned();
        Ok(())
    }

    pub(crate) fn change_container(
        &self,
        id: &str,
        change: impl FnOnce(&mut Container),
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let container = state.containers.get_mut(id);
        let container = container.ok_or_else(|| Error::UnknownContainer(id.to_owned()))?;
        change(container);
        container.id = id.to_owned();
        Ok(())
    }

    pub(crate) fn set_state(&self, id: &str, to: ContainerState) -> Result<(), Error> {
        self.change_container(id, |container| container.state = to.into())
    }

    /// Sets resources of a container; those that `changed` lacks stay.
    pub(crate) fn overlay(&self, id: &str, changed: &LinuxResources) -> Result<(), Error> {
        self.change_container(id, |container| {
            let linux = container.linux.mut_or_insert_default();
            let mut all = json!({});
            merge_resources(&mut all, linux.resources.get_or_default());
            merge_resources(&mut all, changed);
            // The conversion is the reverse of `merge_resources`, so it does not fail.
            let Ok(mut merged) = resources_to_nri(&all) else { return };
            let old = linux.resources.get_or_default();
            merged.blockio_class = newer(&changed.blockio_class, &old.blockio_class);
            merged.rdt_class = newer(&changed.rdt_class, &old.rdt_class);
            linux.resources = Some(merged).into();
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_keeps_the_resources_that_it_does_not_have() {
        let resources = |value| resources_to_nri(&value).unwrap();
        let mut container = Container { id: "c".into(), ..Container::default() };
        let mut old = resources(json!({"memory": {"limit": 7}, "pids": {"limit": 3},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}]}));
        old.blockio_class = nri_api::opt(Some("slow".to_owned()));
        container.linux.mut_or_insert_default().resources = Some(old).into();
        let records = Records::new(Snapshot { containers: vec![container], ..Snapshot::default() });
        let changed = json!({"pids": {"limit": 4},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 2}]});
        records.overlay("c", &resources(changed)).unwrap();
        let (_, container) = records.container("c").unwrap();
        let mut expected = resources(json!({"memory": {"limit": 7}, "pids": {"limit": 4},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 2}]}));
        expected.blockio_class = nri_api::opt(Some("slow".to_owned()));
        assert_eq!(*container.linux.resources, expected);
    }

    #[test]
    fn stopped_containers_are_recorded_but_not_alive() {
        let containers = ["a", "b"].map(|id| Container { id: id.into(), ..Container::default() });
        let records =
            Records::new(Snapshot { containers: containers.into(), ..Snapshot::default() });
        records.set_state("a", ContainerState::CONTAINER_STOPPED).unwrap();
        let ids = |s: Snapshot| s.containers.into_iter().map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(
            (ids(records.all()), ids(records.alive())),
            (vec!["a".into(), "b".into()], vec!["b".into()])
        );
        assert!(matches!(records.check_new_container("a"), Err(Error::Exists(_))));
        records.remove_container("a");
        assert!(records.check_new_container("a").is_ok());
        assert!(matches!(records.container("a"), Err(Error::UnknownContainer(_))));
    }
}
