//! Reservation of the ids by which plugins know containers.
//!
//! A container has no record before plugins have agreed to its creation, but its id must be
//! reserved earlier: containers of the same id may be created in two runtime roots at once.

use crate::state::{key::ContainerKey, locks::ContainerLock, registry::Registry};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc};

type ClaimedIds = Mutex<HashMap<String, ContainerKey>>;

/// Ids that creations and removals in progress have reserved.
#[derive(Debug, Default)]
pub struct Claims(Arc<ClaimedIds>);

/// An id that no other creation gets until the claim is dropped.
#[derive(Debug)]
pub struct Claim {
    claimed: Arc<ClaimedIds>,
    id: String,
}

impl Claims {
    /// Claims the id of a new container, whose lock is held: the runtime's id, with a suffix if
    /// another root has a container of the same id.
    pub fn claim(&self, registry: &Registry, container: &ContainerLock) -> Claim {
        let key = container.key();
        let mut claimed = lock(&self.0);
        let is_taken = claimed.get(&key.id).is_some_and(|other| other != key)
            || registry.by_nri_id(&key.id).is_some_and(|other| other.key() != key);
        let id = if is_taken { key.distinct_id() } else { key.id.clone() };
        claimed.insert(id.clone(), key.clone());
        drop(claimed);
        Claim { claimed: self.0.clone(), id }
    }

    /// Claims the id of a known container that is being removed. The record is removed before the
    /// pod, and the id stays reserved until the pod is removed, too.
    pub fn claim_existing(&self, id: &str, key: &ContainerKey) -> Claim {
        lock(&self.0).insert(id.to_owned(), key.clone());
        Claim { claimed: self.0.clone(), id: id.to_owned() }
    }
}

impl Claim {
    /// Returns the claimed id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.claimed).remove(&self.id);
    }
}

fn lock(claimed: &ClaimedIds) -> MutexGuard<'_, HashMap<String, ContainerKey>> {
    claimed.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{locks::Locks, store::Store};

    #[test]
    fn roots_that_create_the_same_id_at_once_get_two_ids() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let claims = Claims::default();
        let locks = Locks::default();
        let lock = |root: &str| {
            let key = ContainerKey { root: root.into(), id: "x".to_owned() };
            locks.try_container(&key).unwrap()
        };
        let first = claims.claim(&registry, &lock("/a"));
        let second = claims.claim(&registry, &lock("/b"));
        assert_eq!(first.id(), "x");
        assert!(second.id().starts_with("x-"), "{second:?}");
        drop(first);
        assert_eq!(claims.claim(&registry, &lock("/b")).id(), "x");
    }
}
