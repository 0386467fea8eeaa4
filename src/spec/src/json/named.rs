//! Lists whose entries have names. Both an adjustment and an OCI config may have as many entries as
//! fit into a message, so each function takes all entries at once: its work grows with the sum of
//! both, not with the product.

use crate::json::number::same;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Returns a function that reads the name of an entry from its field `key`.
pub(crate) fn under(key: &str) -> impl Fn(&Value) -> Option<&str> {
    move |entry| entry.get(key).and_then(Value::as_str)
}

/// Removes all entries of these names.
pub(crate) fn remove(
    list: &mut Vec<Value>,
    name: impl Fn(&Value) -> Option<&str>,
    names: &HashSet<&str>,
) {
    list.retain(|entry| !name(entry).is_some_and(|name| names.contains(name)));
}

/// Adds entries in their order: each replaces those of the same name, or is appended. An equal
/// entry keeps its text; one without a name is appended.
pub(crate) fn replace_or_push(
    list: &mut Vec<Value>,
    name: impl Fn(&Value) -> Option<&str>,
    entries: Vec<(Option<&str>, Value)>,
) {
    let mut places: HashMap<&str, Option<usize>> =
        entries.iter().filter_map(|(name, _)| Some(((*name)?, None))).collect();
    let mut kept = 0;
    list.retain(|entry| {
        match name(entry).and_then(|name| places.get_mut(name)) {
            Some(Some(_)) => return false,
            Some(place) => *place = Some(kept),
            None => {}
        }
        kept += 1;
        true
    });
    for (name, entry) in entries {
        match name.and_then(|name| places.get_mut(name)) {
            Some(Some(at)) => {
                if !same(&list[*at], &entry) {
                    list[*at] = entry;
                }
            }
            place => {
                place.into_iter().for_each(|place| *place = Some(list.len()));
                list.push(entry);
            }
        }
    }
}

/// Keeps the last entry of each name.
pub(crate) fn last_of_each<T>(entries: Vec<(&str, T)>) -> Vec<(&str, T)> {
    let mut seen = HashSet::new();
    let mut last: Vec<_> =
        entries.into_iter().rev().filter(|(name, _)| seen.insert(*name)).collect();
    last.reverse();
    last
}
