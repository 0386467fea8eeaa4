//! Random numbers of a run. Each thread has a generator of its own, so that a repeated seed repeats
//! the choices of each thread, although their timing differs.

use std::{ops::Range, thread, time::Duration};

/// A splitmix64 generator.
pub(super) struct Rng(u64);

impl Rng {
    /// Creates the generator of one thread.
    pub(super) fn new(seed: u64, thread: u64) -> Self {
        let mut rng = Self(seed ^ thread.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    /// Returns the next number of splitmix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number of the range.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns true with this probability in percent.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Returns a random element of the list; `None` if the list is empty.
    pub(super) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(self.within(0..list.len() as u64) as usize) }
    }

    /// Returns a random duration of the range, which is in milliseconds.
    pub(super) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Sleeps for a random number of milliseconds, so that faults occur at random times.
    pub(super) fn pause(&mut self, range: Range<u64>) {
        thread::sleep(self.millis(range));
    }
}
