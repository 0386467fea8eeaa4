//! Computes medians and percentiles of samples, and differences and quotients of pairs.

/// Returns the value below which the part `share` of the samples lies: 0.5 for the median.
///
/// # Panics
/// There are no samples.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    assert!(!samples.is_empty(), "nothing was measured");
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// Returns the median.
pub(crate) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

/// Returns half the width of the interval in which the median of all possible samples is, with a
/// probability of 95 %: between the samples that are a standard deviation of the binomial
/// distribution, times 1.96, below and above the middle.
pub(crate) fn median_error(samples: &[f64]) -> f64 {
    let share = (0.98 / (samples.len() as f64).sqrt()).min(0.5);
    (percentile(samples, 0.5 + share) - percentile(samples, 0.5 - share)) / 2.0
}

/// Returns the difference of each pair: the sample minus the base of the same round.
pub(crate) fn added(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample - base).collect()
}

/// Returns the quotient of each pair: the sample divided by the base of the same round.
pub(crate) fn ratios(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample / base).collect()
}
