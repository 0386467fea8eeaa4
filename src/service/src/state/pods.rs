//! The known pods. A change is written to disk at once; a write that fails is retried later.

use crate::state::{
    pod::PodRecord,
    spares::WriteTarget,
    store::{Store, StoreError},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
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
    write_failed: Arc<Notify>,
    reservations: Arc<Mutex<Reservations>>,
}

/// Number of creations that are about to add a container, by pod.
type Reservations = HashMap<String, usize>;

/// Reservation by a creation that is about to add a container to a pod. The pod is not removed
/// until the reservation is dropped.
#[derive(Debug)]
pub struct PodReservation {
    reservations: Arc<Mutex<Reservations>>,
    pod: String,
}

impl Drop for PodReservation {
    fn drop(&mut self) {
        let mut reservations = self.reservations.lock();
        if let Some(n) = reservations.get_mut(&self.pod) {
            *n -= 1;
            if *n == 0 {
                reservations.remove(&self.pod);
            }
        }
    }
}

impl Pods {
    /// Creates the list from records that were read from disk.
    pub(super) fn new(store: Store, records: Vec<PodRecord>, write_failed: Arc<Notify>) -> Self {
        let records = records.into_iter().map(|p| (p.id().to_owned(), p)).collect();
        Self {
            store,
            records: Mutex::new(records),
            unsaved: Mutex::default(),
            write_failed,
            reservations: Arc::default(),
        }
    }

    /// Returns a copy of a pod's record.
    pub fn get(&self, id: &str) -> Option<PodRecord> {
        self.records.lock().get(id).cloned()
    }

    /// Returns all pods, in the order of their ids.
    pub fn all(&self) -> Vec<PodRecord> {
        let mut all: Vec<_> = self.records.lock().values().cloned().collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// Returns at most `limit` pods, those after the id `after`, in the order of their ids.
    pub fn page(&self, after: Option<&str>, limit: usize) -> Vec<PodRecord> {
        let records = self.records.lock();
        let follows = |id: &&String| after.is_none_or(|after| id.as_str() > after);
        let mut ids: Vec<&String> = records.keys().filter(follows).collect();
        if ids.len() > limit {
            ids.select_nth_unstable(limit);
            ids.truncate(limit);
        }
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| records.get(id).cloned()).collect()
    }

    /// Adds or replaces a pod.
    pub fn set(&self, pod: PodRecord) {
        let mut records = self.records.lock();
        let target =
            if records.contains_key(pod.id()) { WriteTarget::Existing } else { WriteTarget::New };
        self.save(&pod, target);
        records.insert(pod.id().to_owned(), pod);
    }

    /// Changes a pod, if it exists; returns its new record.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut PodRecord)) -> Option<PodRecord> {
        let mut records = self.records.lock();
        let pod = records.get_mut(id)?;
        change(pod);
        self.save(pod, WriteTarget::Existing);
        Some(pod.clone())
    }

    /// Removes a pod.
    pub fn remove(&self, id: &str) {
        let mut records = self.records.lock();
        records.remove(id);
        self.store.remove_pod(id);
        self.unsaved.lock().remove(id);
    }

    /// Writes the record of a pod if the last write of the record failed.
    ///
    /// # Errors
    /// The write fails again.
    pub fn ensure_saved(&self, id: &str) -> Result<(), StoreError> {
        let records = self.records.lock();
        let is_unsaved = self.unsaved.lock().contains(id);
        records
            .get(id)
            .filter(|_| is_unsaved)
            .map_or(Ok(()), |pod| self.try_save(pod, WriteTarget::Existing))
    }

    /// Marks all pods as not on disk.
    pub(super) fn mark_unsaved(&self) {
        let ids = self.ids();
        self.unsaved.lock().extend(ids);
    }

    /// Writes the pods that could not be written before. Returns whether all pods are on disk now.
    pub(super) fn save_unsaved(&self) -> bool {
        let unsaved = self.unsaved.lock().clone();
        unsaved.iter().all(|id| self.ensure_saved(id).is_ok())
    }

    /// Writes a record. The caller has locked the records, so that an older version of the record
    /// does not overwrite a newer version.
    fn save(&self, pod: &PodRecord, target: WriteTarget) {
        if let Err(error) = self.try_save(pod, target) {
            tracing::error!(%error, pod = pod.id(), "cannot write the record, retried later");
        }
    }

    fn try_save(&self, pod: &PodRecord, target: WriteTarget) -> Result<(), StoreError> {
        let saved = self.store.save_pod(pod, target);
        let mut unsaved = self.unsaved.lock();
        if saved.is_ok() {
            unsaved.remove(pod.id());
        } else if unsaved.insert(pod.id().to_owned()) {
            self.write_failed.notify_one();
        }
        saved
    }

    /// Returns the ids of all pods.
    pub(super) fn ids(&self) -> Vec<String> {
        self.records.lock().keys().cloned().collect()
    }

    /// Reserves a pod to which a container is about to be added, so that the pod is not removed.
    pub fn reserve(&self, pod: &str) -> PodReservation {
        *self.reservations.lock().entry(pod.to_owned()).or_default() += 1;
        PodReservation { reservations: self.reservations.clone(), pod: pod.to_owned() }
    }

    /// Whether a creation has reserved the pod.
    pub(super) fn is_reserved(&self, pod: &str) -> bool {
        self.reservations.lock().contains_key(pod)
    }
}
