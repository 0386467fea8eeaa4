//! Locks that serialize the verbs and events of a container, and locks of pods.
//!
//! A container lock is held from the start of a verb to its end, also during requests to plugins.
//! So nothing that a plugin waits for may take a container lock: `PluginRequests`, which serves
//! plugins, has no access to the locks. Order: container lock, then pod lock.

use crate::state::key::ContainerKey;
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
pub struct ContainerLock(Arc<(ContainerKey, OwnedMutexGuard<()>)>);

impl ContainerLock {
    /// Returns the key of the container.
    pub fn key(&self) -> &ContainerKey {
        &self.0.0
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
pub struct Locks(Mutex<HashMap<Lockable, Weak<Lock>>>);

impl Locks {
    /// Waits for the lock of a container.
    pub async fn container(&self, key: &ContainerKey) -> ContainerLock {
        let guard = self.lock(Lockable::Container(key.clone())).lock_owned().await;
        ContainerLock(Arc::new((key.clone(), guard)))
    }

    /// Takes the lock of a container if it is free.
    pub fn try_container(&self, key: &ContainerKey) -> Option<ContainerLock> {
        let guard = self.lock(Lockable::Container(key.clone())).try_lock_owned().ok()?;
        Some(ContainerLock(Arc::new((key.clone(), guard))))
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
        self.0.lock()
    }
}
