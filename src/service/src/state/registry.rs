//! The known containers. A change is written to disk at once; a write that fails is retried later.

use crate::{
    cgroup::location,
    state::{
        container::Container,
        key::ContainerKey,
        pod::PodKind,
        pods::Pods,
        record::Record,
        status::ContainerStatus,
        store::{Store, StoreError},
    },
};
use nri_api::proto::{Container as ContainerMessage, ContainerState, PodSandbox};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The known containers and pods.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    containers: Mutex<HashMap<ContainerKey, Arc<Container>>>,
    /// Containers with changes that are not on disk yet.
    unsaved: Mutex<HashSet<ContainerKey>>,
    /// Notified when a record cannot be written.
    failing: Arc<Notify>,
    /// The pods.
    pub pods: Pods,
}

impl Registry {
    /// Reads the records of the previous `nrid`. Also returns an error for each file that cannot be
    /// read.
    pub fn load(store: Store) -> (Self, Vec<StoreError>) {
        let (containers, mut broken) = store.containers();
        let (pods, broken_pods) = store.pods();
        broken.extend(broken_pods);
        let containers =
            containers.into_iter().map(|r| (r.key.clone(), Container::new(r))).collect();
        let failing = Arc::<Notify>::default();
        let registry = Self {
            pods: Pods::new(store.clone(), pods, failing.clone()),
            store,
            containers: Mutex::new(containers),
            unsaved: Mutex::default(),
            failing,
        };
        (registry, broken)
    }

    /// Returns the container with this key.
    pub fn get(&self, key: &ContainerKey) -> Option<Arc<Container>> {
        lock(&self.containers).get(key).cloned()
    }

    /// Whether this container is known. Another one with the same key does not count.
    pub fn contains(&self, container: &Container) -> bool {
        self.get(&container.key()).is_some_and(|known| std::ptr::eq(&*known, container))
    }

    /// Returns the container that plugins know by this id.
    pub fn by_nri_id(&self, id: &str) -> Option<Arc<Container>> {
        self.all().into_iter().find(|c| c.lock_record().container.id == id)
    }

    /// Returns the container that a hook names by `--record`.
    pub fn by_hook_name(&self, name: &str) -> Option<Arc<Container>> {
        let is = |record: &Record| record.key.hook_name(record.incarnation) == name;
        self.all().into_iter().find(|c| is(&c.lock_record()))
    }

    /// Returns all containers, oldest first.
    pub fn all(&self) -> Vec<Arc<Container>> {
        let mut all: Vec<_> = lock(&self.containers).values().cloned().collect();
        all.sort_by_cached_key(|c| {
            let record = c.lock_record();
            (record.container.created_at, record.key.clone())
        });
        all
    }

    /// Adds a container, on disk first.
    ///
    /// # Errors
    /// The record cannot be written; then the container is not added.
    pub fn insert(&self, record: Record) -> Result<Arc<Container>, StoreError> {
        self.store.save(&record)?;
        let key = record.key.clone();
        let container = Container::new(record);
        lock(&self.containers).insert(key, container.clone());
        Ok(container)
    }

    /// Changes a record, in memory and on disk, and returns it. A failed write is logged and
    /// retried later; the change stays in memory, because it has happened on the host already.
    pub fn change(&self, container: &Container, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = container.lock_record();
        change(&mut record);
        // Written under the lock, so that an older record does not overwrite a newer one.
        if let Err(error) = self.save(container, &record) {
            let id = &record.key.id;
            tracing::error!(%error, container = id, "cannot write the record, retried later");
        }
        record.clone()
    }

    /// Changes a record on disk, and then in memory.
    ///
    /// # Errors
    /// The record cannot be written; then it has not changed.
    pub fn try_change(
        &self,
        container: &Container,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), StoreError> {
        let mut record = container.lock_record();
        let mut changed = record.clone();
        change(&mut changed);
        self.save(container, &changed)?;
        *record = changed;
        Ok(())
    }

    /// Writes a record that the caller has locked. A container that was removed is not written
    /// again.
    fn save(&self, container: &Container, record: &Record) -> Result<(), StoreError> {
        let known = self.get(&record.key);
        if known.is_none_or(|known| !std::ptr::eq(&*known, container)) {
            return Ok(());
        }
        let saved = self.store.save(record);
        let mut unsaved = lock(&self.unsaved);
        if saved.is_ok() {
            unsaved.remove(&record.key);
        } else if unsaved.insert(record.key.clone()) {
            self.failing.notify_one();
        }
        saved
    }

    /// Waits until a record cannot be written.
    pub async fn failing(&self) {
        self.failing.notified().await;
    }

    /// Writes the records that could not be written before. Returns whether none is left.
    pub fn save_unsaved(&self) -> bool {
        let unsaved = lock(&self.unsaved).clone();
        let save = |container: &Container| self.save(container, &container.lock_record()).is_ok();
        unsaved.iter().filter_map(|key| self.get(key)).all(|container| save(&container))
            && self.pods.save_unsaved()
    }

    /// Whether another container was created from the adjusted `config.json` of this one. Deleted
    /// containers do not count: otherwise none of several that are deleted at once would restore
    /// the engine's `config.json`.
    pub fn shares_config(&self, record: &Record) -> bool {
        let same = |other: &Record| {
            other.key != record.key
                && other.bundle.identity == record.bundle.identity
                && other.bundle.name == record.bundle.name
                && other.bundle.written == record.bundle.written
        };
        record.bundle.written.is_some()
            && self.all().iter().any(|c| !c.is_deleted() && same(&c.lock_record()))
    }

    /// Removes a container.
    pub fn remove(&self, key: &ContainerKey) {
        let container = lock(&self.containers).remove(key);
        // Waits for a write in progress.
        let _record = container.as_ref().map(|container| container.lock_record());
        self.store.remove(key);
        lock(&self.unsaved).remove(key);
    }

    /// Removes the pods that have neither a container nor a sandbox.
    pub fn remove_empty_pods(&self) {
        for pod in self.pods.all() {
            let id = &pod.sandbox.id;
            let has_sandbox = pod.kind == PodKind::Sandbox
                && self.all().iter().any(|c| {
                    let record = c.lock_record();
                    record.sandbox && record.pod_id == *id
                });
            if self.members(id) == 0 && !has_sandbox {
                self.pods.remove(id);
            }
        }
    }

    /// Whether a pod has no container, and none is about to be added. The caller holds the pod
    /// lock.
    pub fn is_empty_pod(&self, id: &str) -> bool {
        !self.pods.is_entered(id) && self.members(id) == 0
    }

    /// Number of containers of a pod, without its sandbox.
    fn members(&self, pod: &str) -> usize {
        let is_member = |record: &Record| record.pod_id == pod && !record.sandbox;
        self.all().iter().filter(|c| is_member(&c.lock_record())).count()
    }

    /// Numbers of existing pods and containers, without sandbox containers. Deleted ones do not
    /// count, even if plugins are not notified yet.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.all();
        let (deleted, existing): (Vec<_>, Vec<_>) = all.iter().partition(|c| c.is_deleted());
        let pods_of = |list: &[&Arc<Container>]| -> HashSet<String> {
            list.iter().map(|c| c.lock_record().pod_id.clone()).collect()
        };
        let (ending, existing_pods) = (pods_of(&deleted), pods_of(&existing));
        let exists = |pod: &&String| existing_pods.contains(*pod) || !ending.contains(*pod);
        let pods = self.pods.ids().iter().filter(exists).count();
        (pods, existing.iter().filter(|c| !c.lock_record().sandbox).count())
    }

    /// Returns the pod and the container for a message to plugins.
    pub fn messages(&self, container: &Container) -> (PodSandbox, ContainerMessage) {
        let record = container.record();
        let mut message = record.message();
        if record.status == ContainerStatus::Running
            && record.cgroup().is_some_and(|dirs| location::is_paused(&dirs))
        {
            message.state = ContainerState::CONTAINER_PAUSED.into();
        }
        (self.pods.get(&record.pod_id).map(|p| p.sandbox).unwrap_or_default(), message)
    }
}

/// The maps are complete at every point where their holder could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
