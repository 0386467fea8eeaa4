//! Computes medians and percentiles of samples, and differences and quotients of pairs.

/// Returns the value below which the part `share` of the samples lies: 0.5 for the median.
///
/// # Panics
/// There are no samples.
pub fn percentile(samples: &[f64], share: f64) -> f64 {
    assert!(!samples.is_empty(), "nothing was measured");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// Returns the median.
///
/// # Panics
/// There are no samples.
pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

/// Returns half the width of the interval in which the median of all possible samples is, with a
/// probability of 95 %: between the samples that are a standard deviation of the binomial
/// distribution, times 1.96, below and above the middle.
///
/// # Panics
/// There are no samples.
pub fn median_error(samples: &[f64]) -> f64 {
    let share = (0.98 / (samples.len() as f64).sqrt()).min(0.5);
    (percentile(samples, 0.5 + share) - percentile(samples, 0.5 - share)) / 2.0
}

/// Returns the interval in which the median of all possible samples is, with a probability of at
/// least 95 %, by the sign test: its ends are the 6th and the 15th of 20 samples. With fewer than 6
/// samples they are the first and the last, and the probability is smaller.
///
/// # Panics
/// There are no samples.
pub fn median_interval(samples: &[f64]) -> (f64, f64) {
    assert!(!samples.is_empty(), "nothing was measured");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Of `count` samples, `rank` are below the median with a probability of `term`.
    let count = sorted.len();
    let (mut rank, mut below, mut term) = (0, 0.0, (-(count as f64)).exp2());
    while below + term <= 0.025 {
        below += term;
        rank += 1;
        term *= (count - rank + 1) as f64 / rank as f64;
    }
    let first = rank.max(1) - 1;
    (sorted[first], sorted[count - 1 - first])
}

/// Returns the difference of each pair: the sample minus the base of the same round.
///
/// # Panics
/// The lists have different lengths.
pub fn added(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample - base).collect()
}

/// Returns the quotient of each pair: the sample divided by the base of the same round.
///
/// # Panics
/// The lists have different lengths.
pub fn ratios(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample / base).collect()
}
