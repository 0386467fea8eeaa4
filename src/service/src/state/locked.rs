//! [`LockedContainer`]: a container whose lock is held. Only it has transitions, see
//! `lifecycle/transition.rs`.

use crate::state::{
    container::Container, locks::ContainerLock, record::Record, registry::Registry,
    store::StoreError,
};
use std::{ops::Deref, sync::Arc};

/// A known container whose lock is held.
#[derive(Debug, Clone)]
pub struct LockedContainer {
    container: Arc<Container>,
    _lock: ContainerLock,
}

impl LockedContainer {
    /// Whether this is that container, and not another one with the same key.
    pub fn is(&self, other: &Arc<Container>) -> bool {
        Arc::ptr_eq(&self.container, other)
    }
}

impl Deref for LockedContainer {
    type Target = Arc<Container>;

    fn deref(&self) -> &Arc<Container> {
        &self.container
    }
}

impl Registry {
    /// Returns the container to which a lock belongs, if it is known.
    pub fn locked(&self, lock: &ContainerLock) -> Option<LockedContainer> {
        let container = self.get(lock.key())?;
        Some(LockedContainer { container, _lock: lock.clone() })
    }

    /// Adds the container to which a lock belongs, on disk first.
    ///
    /// # Errors
    /// The record cannot be written; then the container is not added.
    pub fn insert_locked(
        &self,
        lock: &ContainerLock,
        record: Record,
    ) -> Result<LockedContainer, StoreError> {
        debug_assert_eq!(record.key, *lock.key());
        Ok(LockedContainer { container: self.insert(record)?, _lock: lock.clone() })
    }
}
