//! Lists whose entries have names. Both an adjustment and an OCI config may have very many entries,
//! so each function takes all entries at once: its work grows with the sum of the two counts,
//! not with their product.

use crate::json::number::same_value;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Returns a function that reads the name of an entry from its field `key`.
pub(crate) fn name_field(key: &str) -> impl Fn(&Value) -> Option<&str> {
    move |entry| entry.get(key).and_then(Value::as_str)
}

/// Removes all entries that have one of these names.
pub(crate) fn remove(
    list: &mut Vec<Value>,
    name: impl Fn(&Value) -> Option<&str>,
    names: &HashSet<&str>,
) {
    list.retain(|entry| !name(entry).is_some_and(|name| names.contains(name)));
}

/// Adds `entries` in order. An entry replaces the existing entries of its name, at the position of
/// the first; an entry with a new name, or without a name, is appended. An existing entry that is
/// equal to the added one keeps its text.
pub(crate) fn replace_or_push(
    list: &mut Vec<Value>,
    name: impl Fn(&Value) -> Option<&str>,
    entries: Vec<(Option<&str>, Value)>,
) {
    let mut positions: HashMap<&str, Option<usize>> =
        entries.iter().filter_map(|(name, _)| Some(((*name)?, None))).collect();
    let mut kept = 0;
    list.retain(|entry| {
        match name(entry).and_then(|name| positions.get_mut(name)) {
            Some(Some(_)) => return false,
            Some(position) => *position = Some(kept),
            None => {}
        }
        kept += 1;
        true
    });
    for (name, entry) in entries {
        match name.and_then(|name| positions.get_mut(name)) {
            Some(Some(at)) => {
                if !same_value(&list[*at], &entry) {
                    list[*at] = entry;
                }
            }
            position => {
                position.into_iter().for_each(|position| *position = Some(list.len()));
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
