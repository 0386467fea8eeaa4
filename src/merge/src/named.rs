//! Replacement of entries in lists by their names.
//!
//! A reply and a container may both have as many entries as fit into a message, so the work must
//! not grow with the product of the two.

use std::collections::HashMap;

/// Replaces the first entry of the same name by each of `entries`, or appends it.
pub(crate) fn replace_or_push<T: Clone>(
    list: &mut Vec<T>,
    entries: &[T],
    name: impl Fn(&T) -> &str,
) {
    if entries.is_empty() {
        return;
    }
    let mut positions: HashMap<&str, Option<usize>> =
        entries.iter().map(|e| (name(e), None)).collect();
    for (at, present) in list.iter().enumerate() {
        if let Some(position @ None) = positions.get_mut(name(present)) {
            *position = Some(at);
        }
    }
    for entry in entries {
        match positions.get_mut(name(entry)) {
            Some(Some(at)) => list[*at] = entry.clone(),
            position => {
                position.into_iter().for_each(|position| *position = Some(list.len()));
                list.push(entry.clone());
            }
        }
    }
}
