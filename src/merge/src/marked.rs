//! Keys with removal markers: the keys that a reply sets, and the keys that it only removes.
//!
//! If one reply removes and sets the same key, the key is set, whatever the order of the entries.
//! (In upstream NRI the result depends on the order of a map.)

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::Field;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Keys of one reply.
pub(crate) struct Keys<'a> {
    /// Keys that are set, in the given order.
    pub(crate) set: Vec<&'a str>,
    /// Keys that are removed and not set, sorted.
    pub(crate) removed: BTreeSet<&'a str>,
    /// Keys with a removal marker, sorted, including those that are also set.
    marked: BTreeSet<&'a str>,
    /// The keys of `set`, for lookups.
    set_lookup: HashSet<&'a str>,
}

impl<'a> Keys<'a> {
    /// Reads the keys of a list, in its order.
    pub(crate) fn of_list(keys: impl Iterator<Item = &'a str>) -> Self {
        let (mut set, mut marked) = (Vec::new(), BTreeSet::new());
        for key in keys {
            match Marked::parse(key) {
                Marked::Set(key) => set.push(key),
                Marked::Remove(key) => {
                    marked.insert(key);
                }
            }
        }
        let set_lookup: HashSet<&str> = set.iter().copied().collect();
        let removed = marked.iter().copied().filter(|key| !set_lookup.contains(key)).collect();
        Self { set, removed, marked, set_lookup }
    }

    /// Reads the keys of a map, sorted.
    pub(crate) fn of_map<V>(map: &'a HashMap<String, V>) -> Self {
        let mut keys: Vec<&str> = map.keys().map(String::as_str).collect();
        keys.sort_unstable();
        Self::of_list(keys.into_iter())
    }

    /// Takes over the claims on removed keys, then claims the keys that are set.
    pub(crate) fn claim(&self, field: Field, claims: &mut Claims<'_>) -> Result<(), MergeError> {
        self.marked.iter().for_each(|key| claims.take_over(field, key));
        self.set.iter().try_for_each(|key| claims.claim_key(field, key))
    }

    /// Whether the reply sets or removes `key`.
    pub(crate) fn changes(&self, key: &str) -> bool {
        self.removed.contains(key) || self.set_lookup.contains(key)
    }

    /// Whether the reply sets or removes the key of an entry of the merged adjustment, which may
    /// itself be a removal.
    pub(crate) fn changes_key_of(&self, entry: &str) -> bool {
        self.changes(Marked::parse(entry).key())
    }
}

/// Returns the marker that removes `key`.
pub(crate) fn removal(key: &str) -> String {
    format!("-{key}")
}

/// Overlays the container's map and the adjustment's map with `requested`; the adjustment keeps the
/// markers.
pub(crate) fn overlay_map<V: Clone + Default>(
    requested: &HashMap<String, V>,
    container: &mut HashMap<String, V>,
    adjust: &mut HashMap<String, V>,
) {
    let keys = Keys::of_map(requested);
    for key in keys.removed {
        container.remove(key);
        // If the reply removes a key `-a`, the adjustment's entry `-a` is the removal of `a`: keep
        // it.
        if matches!(Marked::parse(key), Marked::Set(_)) {
            adjust.remove(key);
        }
        adjust.insert(removal(key), V::default());
    }
    for key in keys.set {
        if let Some(value) = requested.get(key) {
            container.insert(key.to_owned(), value.clone());
            // For the empty key the marker would be `-`, which is a key of its own: keep it.
            if !key.is_empty() {
                adjust.remove(&removal(key));
            }
            adjust.insert(key.to_owned(), value.clone());
        }
    }
}
