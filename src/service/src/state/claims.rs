//! The ids that plugins know containers by, from the beginning of a creation on.
//!
//! A container's record comes only when plugins have agreed. Until then its id must be taken too:
//! two roots may create the same id at once.

use crate::{
    bundle::config_json::digest,
    state::{record::Key, registry::Registry},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

type Claimed = HashMap<String, Key>;

/// Ids of creations that are under way.
#[derive(Debug, Default)]
pub struct Claims(Arc<Mutex<Claimed>>);

/// An id that no other creation gets while this lives.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Mutex<Claimed>>,
    id: String,
}

impl Claims {
    /// The id for a container: the runtime's, unless another root has a container of the same id.
    /// The caller holds the container's lane.
    pub fn claim(&self, registry: &Registry, key: &Key) -> Claim {
        let mut claimed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = claimed.get(&key.id).is_some_and(|other| other != key)
            || registry.by_nri_id(&key.id).is_some_and(|other| other.key() != *key);
        let id = if taken {
            format!("{}-{}", key.id, &digest(key.root.as_os_str().as_encoded_bytes())[..8])
        } else {
            key.id.clone()
        };
        claimed.insert(id.clone(), key.clone());
        drop(claimed);
        Claim { claims: self.0.clone(), id }
    }

    /// Keeps the id of a container whose record goes before its pod is removed.
    pub fn keep(&self, id: &str, key: &Key) -> Claim {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), key.clone());
        Claim { claims: self.0.clone(), id: id.to_owned() }
    }
}

impl Claim {
    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::store::Store;

    #[test]
    fn roots_that_create_the_same_id_at_once_get_two_ids() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let (claims, key) =
            (Claims::default(), |root: &str| Key { root: root.into(), id: "x".to_owned() });
        let first = claims.claim(&registry, &key("/a"));
        let second = claims.claim(&registry, &key("/b"));
        assert_eq!(first.id(), "x");
        assert!(second.id().starts_with("x-"), "{second:?}");
        drop(first);
        assert_eq!(claims.claim(&registry, &key("/b")).id(), "x");
    }
}
