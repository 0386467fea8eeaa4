//! A limit of log lines that others cause: a process that connects in a loop must not fill the log.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Shortest time between two lines of the same text.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of texts within [`INTERVAL`]: more than there are reasons to refuse a connection.
const MAX_TEXTS: usize = 16;

/// The lines of one kind.
#[derive(Debug, Default)]
pub struct LineLimit(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    recent: HashMap<String, Instant>,
    skipped: u64,
}

impl LineLimit {
    /// Whether a line with this text may be written now. Returns the number of lines that were not
    /// written since the last one.
    pub fn next(&self, text: &str) -> Option<u64> {
        let mut lines = self.0.lock();
        lines.recent.retain(|_, written| written.elapsed() < INTERVAL);
        if lines.recent.len() >= MAX_TEXTS || lines.recent.contains_key(text) {
            lines.skipped += 1;
            return None;
        }
        lines.recent.insert(text.to_owned(), Instant::now());
        Some(std::mem::take(&mut lines.skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_quick_succession_are_counted() {
        let limit = LineLimit::default();
        assert_eq!(limit.next("a"), Some(0));
        assert_eq!((limit.next("a"), limit.next("a")), (None, None));
        // Another text is not lost because of them.
        assert_eq!(limit.next("b"), Some(2));
        let earlier = Instant::now().checked_sub(INTERVAL).unwrap();
        limit.0.lock().recent.insert("a".into(), earlier);
        assert_eq!(limit.next("a"), Some(0));
        let written = (0..100).filter(|n| limit.next(&n.to_string()).is_some()).count();
        assert_eq!(written, MAX_TEXTS - 2);
    }
}
