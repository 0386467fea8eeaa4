//! Locks that serialize the verbs and events of a container, and locks of pods.
//!
//! A container lock is held from the start of a verb to its end, also during requests to plugins.
//! So nothing that a plugin waits for may take a container lock: `ResourceManager`, which serves
//! plugins, has no access to the locks. Order: container lock, then pod lock.

use crate::state::key::ContainerKey;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Guard of the lock of a container or a pod.
pub type LockGuard = OwnedMutexGuard<()>;

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
    /// Waits for the lock of a container, which need not have a record yet.
    pub async fn container(&self, key: &ContainerKey) -> LockGuard {
        self.lock(Lockable::Container(key.clone())).lock_owned().await
    }

    /// Takes the lock of a container if it is free.
    pub fn try_container(&self, key: &ContainerKey) -> Option<LockGuard> {
        self.lock(Lockable::Container(key.clone())).try_lock_owned().ok()
    }

    /// Waits for the lock of a pod.
    pub async fn pod(&self, id: &str) -> LockGuard {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
