//! What the groups with removal markers share: which keys of a reply are set, and which only
//! removed.
//!
//! A key that is both removed and set in one reply is set, whatever the order (upstream: by chance,
//! for maps).

use crate::MergeError;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::Field;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The keys of one reply, read once.
pub(crate) struct Keys<'a> {
    /// Set, in the order given.
    pub(crate) set: Vec<&'a str>,
    /// Removed, and not set in the same reply; sorted.
    pub(crate) removed: BTreeSet<&'a str>,
    marked: BTreeSet<&'a str>,
    is_set: HashSet<&'a str>,
}

impl<'a> Keys<'a> {
    /// Keys of a list, in its order.
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
        let is_set: HashSet<&str> = set.iter().copied().collect();
        let removed = marked.iter().copied().filter(|key| !is_set.contains(key)).collect();
        Self { set, removed, marked, is_set }
    }

    /// Keys of a map, sorted.
    pub(crate) fn of_map<V>(map: &'a HashMap<String, V>) -> Self {
        let mut keys: Vec<&str> = map.keys().map(String::as_str).collect();
        keys.sort_unstable();
        Self::of_list(keys.into_iter())
    }

    /// Removals pass claims on; then what is set is claimed.
    pub(crate) fn claim(&self, field: Field, claims: &mut Claims<'_>) -> Result<(), MergeError> {
        self.marked.iter().for_each(|key| claims.pass_on(field, key));
        self.set.iter().try_for_each(|key| claims.keyed(field, key))
    }

    /// Whether the reply says anything about `key`.
    pub(crate) fn touch(&self, key: &str) -> bool {
        self.removed.contains(key) || self.is_set.contains(key)
    }

    /// Whether the reply says anything about the key of an entry of the merged adjustment, be it
    /// set or a removal.
    pub(crate) fn touch_marked(&self, entry: &str) -> bool {
        self.touch(Marked::parse(entry).key())
    }
}

/// The marker that removes `key`.
pub(crate) fn removal(key: &str) -> String {
    format!("-{key}")
}

/// Lays the map `asked` over the container's map and over the adjustment's; the latter keeps the
/// markers.
pub(crate) fn overlay_map<V: Clone + Default>(
    asked: &HashMap<String, V>,
    container: &mut HashMap<String, V>,
    adjust: &mut HashMap<String, V>,
) {
    let keys = Keys::of_map(asked);
    for key in keys.removed {
        container.remove(key);
        if matches!(Marked::parse(key), Marked::Set(_)) {
            adjust.remove(key); // else it is the removal of another key
        }
        adjust.insert(removal(key), V::default());
    }
    for key in keys.set {
        if let Some(value) = asked.get(key) {
            container.insert(key.to_owned(), value.clone());
            if !key.is_empty() {
                adjust.remove(&removal(key)); // that of the empty key would be the key `-`
            }
            adjust.insert(key.to_owned(), value.clone());
        }
    }
}
