//! Locks that serialize the verbs and events of a container, and locks of pods.
//!
//! A container lock is held from the start of a verb to its end, also during requests to plugins.
//! So nothing that a plugin waits for may take a container lock: `PluginRequests`, which serves
//! plugins, has no access to the locks. Order: container lock, then pod lock.

use crate::{host::process::ProcessIdentity, state::key::ContainerKey};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The lock of a container, which need not have a record yet. It is held until the last clone is
/// dropped.
#[must_use]
#[derive(Debug, Clone)]
pub struct ContainerLock(Arc<Held>);

#[derive(Debug)]
struct Held {
    key: ContainerKey,
    holders: Holders,
    _guard: OwnedMutexGuard<()>,
}

/// Processes whose verbs hold container locks.
type Holders = Arc<Mutex<HashMap<ContainerKey, ProcessIdentity>>>;

impl ContainerLock {
    /// Returns the key of the container.
    pub fn key(&self) -> &ContainerKey {
        &self.0.key
    }

    /// Records the process whose verb holds the lock, if it is known.
    pub fn set_holder(&self, process: Option<ProcessIdentity>) {
        if let Some(process) = process {
            self.0.holders.lock().insert(self.0.key.clone(), process);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The guard is a field, and is dropped afterwards.
        self.holders.lock().remove(&self.key);
    }
}

/// An object that has a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lockable {
    Container(ContainerKey),
    Pod(String),
}

type Lock = AsyncMutex<()>;

/// The locks that are held or waited for.
#[derive(Debug, Default)]
pub struct Locks {
    locks: Mutex<HashMap<Lockable, Weak<Lock>>>,
    holders: Holders,
}

impl Locks {
    /// Waits for the lock of a container.
    pub async fn container(&self, key: &ContainerKey) -> ContainerLock {
        let guard = self.lock(Lockable::Container(key.clone())).lock_owned().await;
        self.held(key, guard)
    }

    /// Takes the lock of a container if it is free.
    pub fn try_container(&self, key: &ContainerKey) -> Option<ContainerLock> {
        let guard = self.lock(Lockable::Container(key.clone())).try_lock_owned().ok()?;
        Some(self.held(key, guard))
    }

    fn held(&self, key: &ContainerKey, guard: OwnedMutexGuard<()>) -> ContainerLock {
        let holders = self.holders.clone();
        ContainerLock(Arc::new(Held { key: key.clone(), holders, _guard: guard }))
    }

    /// Returns the process whose verb holds the lock of a container, if it is known.
    pub fn holder(&self, key: &ContainerKey) -> Option<ProcessIdentity> {
        self.holders.lock().get(key).copied()
    }

    /// Waits for the lock of a pod.
    pub async fn pod(&self, id: &str) -> OwnedMutexGuard<()> {
        self.lock(Lockable::Pod(id.to_owned())).lock_owned().await
    }

    /// Whether any lock is held or waited for.
    pub fn is_busy(&self) -> bool {
        self.locks().values().any(|lock| lock.strong_count() > 0)
    }

    fn lock(&self, object: Lockable) -> Arc<Lock> {
        let mut locks = self.locks();
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(&object).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(Lock::new(()));
        locks.insert(object, Arc::downgrade(&lock));
        lock
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<Lockable, Weak<Lock>>> {
        self.locks.lock()
    }
}
