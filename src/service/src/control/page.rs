//! Pages of lists: no reply is large, and no other request waits for a list.

use nri_control::{MAX_FRAME, Page};
use serde::Serialize;

/// Maximum number of entries of a page, which take about a millisecond.
pub(super) const PAGE_ENTRIES: usize = 128;

/// Size of a page in bytes of JSON above which the next entry is in the next page. Entries have
/// about a kilobyte, but names have no limit.
const PAGE_SIZE: usize = MAX_FRAME / 4;

/// Takes entries until the page is full. Each has the id by which a list continues after it.
pub(super) fn page<T: Serialize>(
    entries: impl ExactSizeIterator<Item = (String, Option<T>)>,
) -> serde_json::Result<Page<T>> {
    let may_continue = entries.len() == PAGE_ENTRIES;
    let (mut page, mut size) = (Page { entries: Vec::new(), next: None }, 0);
    let mut last = None;
    for (id, entry) in entries {
        if let Some(entry) = entry {
            size += serde_json::to_string(&entry)?.len();
            if size > PAGE_SIZE && !page.entries.is_empty() {
                page.next = last;
                return Ok(page);
            }
            page.entries.push(entry);
        }
        last = Some(id);
    }
    page.next = last.filter(|_| may_continue);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_long_names_ends_early() {
        let long = "n".repeat(PAGE_SIZE / 2);
        let entries = (0..3).map(|n| (n.to_string(), Some(long.clone())));
        let found = page(entries.collect::<Vec<_>>().into_iter()).unwrap();
        assert_eq!((found.entries.len(), found.next.as_deref()), (1, Some("0")));
    }
}
