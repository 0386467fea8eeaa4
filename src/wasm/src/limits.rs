//! GuestLimits of a guest: memory, tables, and time.

use std::time::{Duration, Instant};
use wasmi::{StoreLimits, StoreLimitsBuilder};

/// Limit of elements in a table: references to functions, far more than a program has.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;
/// Limit of tables; compilers make one.
const MAX_TABLES: usize = 16;

/// GuestLimits of one guest.
pub(crate) struct GuestLimits {
    /// Limit of the guest's memory in bytes.
    pub(crate) memory: usize,
    /// GuestLimits that the engine enforces.
    pub(crate) store: StoreLimits,
    /// End of the call in progress.
    deadline: Instant,
    /// Time limit of the call in progress.
    pub(crate) time: Duration,
}

impl GuestLimits {
    /// Creates limits for one instance with one memory, which ends when it asks for more memory.
    pub(crate) fn new(memory: usize) -> Self {
        let store = StoreLimitsBuilder::new()
            .memory_size(memory)
            .memories(1)
            .instances(1)
            .tables(MAX_TABLES)
            .table_elements(MAX_TABLE_ELEMENTS)
            .trap_on_grow_failure(true)
            .build();
        Self { memory, store, deadline: Instant::now(), time: Duration::ZERO }
    }

    /// Begins a call that ends after `time`.
    pub(crate) fn begin(&mut self, time: Duration) {
        (self.deadline, self.time) = (Instant::now() + time, time);
    }

    /// Returns the time that is left of the call; `None` after its end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.deadline.checked_duration_since(Instant::now())
    }
}
