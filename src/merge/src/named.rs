//! Lists whose entries have names. A reply may have as many entries as fit into a message, and so
//! may the container: work on them must not grow with the product of the two.

use std::collections::HashMap;

/// Puts entries, in their order, each in place of the first of its name, or at the end.
pub(crate) fn replace_or_push<T: Clone>(
    list: &mut Vec<T>,
    entries: &[T],
    name: impl Fn(&T) -> &str,
) {
    if entries.is_empty() {
        return;
    }
    let mut places: HashMap<&str, Option<usize>> =
        entries.iter().map(|e| (name(e), None)).collect();
    for (at, present) in list.iter().enumerate() {
        if let Some(place @ None) = places.get_mut(name(present)) {
            *place = Some(at);
        }
    }
    for entry in entries {
        match places.get_mut(name(entry)) {
            Some(Some(at)) => list[*at] = entry.clone(),
            place => {
                place.into_iter().for_each(|place| *place = Some(list.len()));
                list.push(entry.clone());
            }
        }
    }
}
