//! Histogram of durations with fixed bounds, which many tasks record into without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, inclusive. A call of a local plugin takes a tenth of a millisecond,
/// and the usual timeout is two seconds. What takes longer than the last bound is in one more
/// bucket.
pub const BUCKET_BOUNDS: [Duration; 16] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

const BUCKETS: usize = BUCKET_BOUNDS.len() + 1;

/// A histogram that is recorded into.
#[derive(Debug, Default)]
pub(crate) struct DurationRecorder {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

impl DurationRecorder {
    /// Records a duration.
    pub(crate) fn record(&self, duration: Duration) {
        let bucket = BUCKET_BOUNDS.partition_point(|bound| *bound < duration);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the histogram up to now.
    pub(crate) fn get(&self) -> DurationHistogram {
        DurationHistogram {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// A histogram of durations at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// Number of durations per bucket, whose bounds are [`BUCKET_BOUNDS`]; the last has none.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations.
    pub sum: Duration,
}

impl DurationHistogram {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns an estimate of the duration that this part of all durations does not exceed, such as
    /// 0.99; `None` without any duration. Within a bucket, durations are taken to be spread evenly,
    /// as `histogram_quantile` of Prometheus does. The last bound stands for all that exceed it.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = part * count as f64;
        let (mut below, mut lower) = (0, Duration::ZERO);
        for (bound, in_bucket) in BUCKET_BOUNDS.iter().zip(self.buckets) {
            if in_bucket > 0 && (below + in_bucket) as f64 >= rank {
                let share = ((rank - below as f64) / in_bucket as f64).clamp(0.0, 1.0);
                return Some(lower + (*bound - lower).mul_f64(share));
            }
            below += in_bucket;
            lower = *bound;
        }
        Some(lower)
    }

    /// Adds the durations of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += more;
        }
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(micros: impl IntoIterator<Item = u64>) -> DurationHistogram {
        let recorder = DurationRecorder::default();
        micros.into_iter().for_each(|micros| recorder.record(Duration::from_micros(micros)));
        recorder.get()
    }

    #[test]
    fn a_bound_is_the_last_duration_of_its_bucket() {
        let found = histogram([0, 100, 101, 250, 10_000_000, 10_000_001]);
        assert_eq!((found.buckets[0], found.buckets[1]), (2, 2));
        assert_eq!((found.buckets[15], found.buckets[16]), (1, 1));
        assert_eq!((found.count(), found.sum), (6, Duration::from_micros(20_000_452)));
        assert!(BUCKET_BOUNDS.is_sorted());
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let micros = |histogram: &DurationHistogram, part| {
            histogram.quantile(part).map(|found| found.as_micros())
        };
        assert_eq!(micros(&histogram([]), 0.5), None);
        // histogram_quantile(0.5, …) of 10 durations in the bucket from 1 ms to 2.5 ms.
        let even = histogram([2000; 10]);
        assert_eq!(micros(&even, 0.5), Some(1750));
        assert_eq!(micros(&even, 1.0), Some(2500));
        let mut mixed = histogram([50; 98]);
        mixed.add(&histogram([2_000_000, 11_000_000]));
        assert_eq!(micros(&mixed, 0.5), Some(51));
        assert_eq!(micros(&mixed, 0.99), Some(2_500_000));
        assert_eq!(micros(&mixed, 1.0), Some(10_000_000));
    }
}
