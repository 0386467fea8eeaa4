//! Conversion of the weights of cgroup v1 to those of cgroup v2.
//!
//! Older runtimes convert `cpu.shares` to `cpu.weight` linearly; runc since 1.3.2, crun since 1.23
//! and youki use a curve, which maps the default of 1024 shares to the default weight, 100. So a
//! value that is read back may be either result.

/// Converts `cpu.shares` to `cpu.weight` linearly.
pub(crate) fn linear_cpu(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

/// Converts `cpu.shares` to `cpu.weight` by the curve: `ceil(10^((l^2 + 125 l) / 612 - 7/34))` with
/// `l = log2(shares)`.
pub(crate) fn curved_cpu(shares: u64) -> u64 {
    if shares <= 2 {
        return 1;
    }
    if shares >= 262_144 {
        return 10_000;
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // The result is between 1 and 10000.
    let weight = {
        let l = (shares as f64).log2();
        10f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil() as u64
    };
    weight
}

/// Returns the largest `cpu.shares` that the curve converts to this weight, or to a lower one.
pub(crate) fn shares(weight: u64) -> u64 {
    let (mut least, mut most) = (2_u64, 262_144);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if curved_cpu(middle) <= weight { least = middle } else { most = middle - 1 }
    }
    least
}

/// Converts `blkio.weight` (10 to 1000) to `io.weight` (1 to 10000) linearly.
pub(crate) fn io(weight: u64) -> u64 {
    1 + (weight.clamp(10, 1000) - 10) * 9999 / 990
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_match_those_of_real_runtimes() {
        // runc 1.1 and crun 1.8 convert 512 shares to the weight 20; runc since 1.3.2 and crun 1.28
        // convert them to 59.
        for (shares, linear, curved) in
            [(2, 1, 1), (512, 20, 59), (1024, 39, 100), (262_144, 10_000, 10_000), (0, 1, 1)]
        {
            assert_eq!((linear_cpu(shares), curved_cpu(shares)), (linear, curved), "{shares}");
        }
        for (weight, converted) in [(10, 1), (100, 910), (500, 4950), (1000, 10_000)] {
            assert_eq!(io(weight), converted, "{weight}");
        }
    }
    #[test]
    fn shares_of_a_weight_have_this_weight() {
        for weight in [1, 2, 20, 59, 100, 5000, 9999, 10_000] {
            assert_eq!(curved_cpu(shares(weight)), weight, "{weight}");
        }
        assert_eq!((shares(0), shares(u64::MAX)), (2, 262_144));
    }
}
