//! Random orders that a seed repeats: SplitMix64, and the shuffle of Fisher and Yates.

/// A generator of random numbers.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the values in a random order.
    pub(crate) fn shuffled<T: Clone>(&mut self, values: &[T]) -> Vec<T> {
        let mut all = values.to_vec();
        for end in (1..all.len()).rev() {
            all.swap(end, (self.next() % (end as u64 + 1)) as usize);
        }
        all
    }
}
