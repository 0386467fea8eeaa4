//! Limit of the events that wait for a plugin while no one may wait for them: a plugin that does
//! not reply would otherwise collect them for ever.

use parking_lot::Mutex;
use std::sync::Arc;

/// Number of events that may wait for one plugin: many times those of a busy node in a timeout.
const MAX_EVENTS: usize = 4096;

/// Size of the events that may wait for one plugin, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The events that wait for one plugin. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Undelivered(Arc<Mutex<Sum>>);

#[derive(Debug, Default)]
struct Sum {
    events: usize,
    bytes: usize,
}

/// An event that waits for a plugin, until it is dropped.
#[derive(Debug)]
pub(crate) struct UndeliveredEvent {
    all: Undelivered,
    bytes: usize,
}

impl Undelivered {
    /// Adds an event of this size; `None` if too many wait already.
    pub(crate) fn add(&self, bytes: usize) -> Option<UndeliveredEvent> {
        let mut sum = self.0.lock();
        // An event may be larger than the rest, or else large ones would never be delivered.
        if sum.events >= MAX_EVENTS || sum.bytes >= MAX_BYTES {
            return None;
        }
        sum.events += 1;
        sum.bytes += bytes;
        Some(UndeliveredEvent { all: self.clone(), bytes })
    }
}

impl Drop for UndeliveredEvent {
    fn drop(&mut self) {
        let mut sum = self.all.0.lock();
        sum.events -= 1;
        sum.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plugin that never replied kept eight megabytes for each container.
    #[test]
    fn events_that_wait_are_limited_in_number_and_bytes() {
        for (bytes, expected) in [(1, MAX_EVENTS), (MAX_BYTES / 4, 4), (MAX_BYTES * 2, 1)] {
            let undelivered = Undelivered::default();
            let mut waiting: Vec<_> = std::iter::from_fn(|| undelivered.add(bytes)).collect();
            assert_eq!(waiting.len(), expected);
            waiting.pop();
            assert!(undelivered.add(bytes).is_some());
        }
    }
}
