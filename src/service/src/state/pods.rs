//! The known pods. A change is written to disk at once; a write that fails is retried later.

use crate::state::{
    pod::PodRecord,
    store::{Store, StoreError},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The known pods.
#[derive(Debug)]
pub struct Pods {
    store: Store,
    records: Mutex<HashMap<String, PodRecord>>,
    /// Pods with changes that are not on disk yet.
    unsaved: Mutex<HashSet<String>>,
    /// Notified when a record cannot be written.
    failing: Arc<Notify>,
    entering: Arc<Mutex<Entries>>,
}

/// Number of creations that are about to add a container, by pod.
type Entries = HashMap<String, usize>;

/// Registration of a creation that is about to add a container to a pod: the pod is kept until the
/// registration is dropped.
#[derive(Debug)]
pub struct Entering {
    entries: Arc<Mutex<Entries>>,
    pod: String,
}

impl Drop for Entering {
    fn drop(&mut self) {
        let mut entries = lock(&self.entries);
        if let Some(n) = entries.get_mut(&self.pod) {
            *n -= 1;
            if *n == 0 {
                entries.remove(&self.pod);
            }
        }
    }
}

impl Pods {
    /// Creates the list from records that were read from disk.
    pub(super) fn new(store: Store, records: Vec<PodRecord>, failing: Arc<Notify>) -> Self {
        let records = records.into_iter().map(|p| (p.sandbox.id.clone(), p)).collect();
        Self {
            store,
            records: Mutex::new(records),
            unsaved: Mutex::default(),
            failing,
            entering: Arc::default(),
        }
    }

    /// Returns a copy of a pod's record.
    pub fn get(&self, id: &str) -> Option<PodRecord> {
        lock(&self.records).get(id).cloned()
    }

    /// All pods, in the order of their ids.
    pub fn all(&self) -> Vec<PodRecord> {
        let mut all: Vec<_> = lock(&self.records).values().cloned().collect();
        all.sort_by(|a, b| a.sandbox.id.cmp(&b.sandbox.id));
        all
    }

    /// Adds or replaces a pod.
    pub fn set(&self, pod: PodRecord) {
        let mut records = lock(&self.records);
        self.save(&pod);
        records.insert(pod.sandbox.id.clone(), pod);
    }

    /// Changes a pod, if it exists; returns its new record.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut PodRecord)) -> Option<PodRecord> {
        let mut records = lock(&self.records);
        let pod = records.get_mut(id)?;
        change(pod);
        self.save(pod);
        Some(pod.clone())
    }

    /// Removes a pod.
    pub fn remove(&self, id: &str) {
        let mut records = lock(&self.records);
        records.remove(id);
        self.store.remove_pod(id);
        lock(&self.unsaved).remove(id);
    }

    /// Writes a pod if that failed before.
    ///
    /// # Errors
    /// The write fails again.
    pub fn ensure_saved(&self, id: &str) -> Result<(), StoreError> {
        let records = lock(&self.records);
        let is_unsaved = lock(&self.unsaved).contains(id);
        records.get(id).filter(|_| is_unsaved).map_or(Ok(()), |pod| self.try_save(pod))
    }

    /// Writes the pods that could not be written before. Returns whether none is left.
    pub(super) fn save_unsaved(&self) -> bool {
        let unsaved = lock(&self.unsaved).clone();
        unsaved.iter().all(|id| self.ensure_saved(id).is_ok())
    }

    /// Writes a record. The caller has locked the records, so that an older one does not overwrite
    /// a newer one.
    fn save(&self, pod: &PodRecord) {
        if let Err(error) = self.try_save(pod) {
            tracing::error!(%error, pod = pod.sandbox.id, "cannot write the record, retried later");
        }
    }

    fn try_save(&self, pod: &PodRecord) -> Result<(), StoreError> {
        let saved = self.store.save_pod(pod);
        let mut unsaved = lock(&self.unsaved);
        if saved.is_ok() {
            unsaved.remove(&pod.sandbox.id);
        } else if unsaved.insert(pod.sandbox.id.clone()) {
            self.failing.notify_one();
        }
        saved
    }

    /// Ids of all pods.
    pub(super) fn ids(&self) -> Vec<String> {
        lock(&self.records).keys().cloned().collect()
    }

    /// Keeps a pod while a container is about to be added to it.
    pub fn enter(&self, pod: &str) -> Entering {
        *lock(&self.entering).entry(pod.to_owned()).or_default() += 1;
        Entering { entries: self.entering.clone(), pod: pod.to_owned() }
    }

    /// Whether a container is about to be added to a pod.
    pub(super) fn is_entered(&self, pod: &str) -> bool {
        lock(&self.entering).contains_key(pod)
    }
}

/// The maps are complete at every point where their holder could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
