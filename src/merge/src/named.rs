//! Replacement of list entries by name.
//!
//! A reply and a container may both have as many entries as fit into a message, so the work must
//! not grow with the product of the two counts.

use std::collections::HashMap;

/// Writes each of `entries` to `list`: in place of the first entry of the same name, or at the end.
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
    for (at, existing) in list.iter().enumerate() {
        if let Some(position @ None) = positions.get_mut(name(existing)) {
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
