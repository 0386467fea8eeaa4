//! Medians and percentiles of samples, and differences of pairs.

/// Returns the value below which a share of the samples lies.
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

/// Returns what each sample has more than the one of the other series that was taken beside it.
pub(crate) fn added(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample - base).collect()
}

/// Returns the quotient of each pair.
pub(crate) fn ratios(samples: &[f64], base: &[f64]) -> Vec<f64> {
    assert_eq!(samples.len(), base.len(), "each sample has a pair");
    samples.iter().zip(base).map(|(sample, base)| sample / base).collect()
}
