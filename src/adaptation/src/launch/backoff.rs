//! Pauses before restarts of launched plugins, doubled with each consecutive failure.
//!
//! Only the pauses are computed here; [`crate::launch::supervisor`] waits and launches.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::AdaptationConfig;
use crate::policy::plugin_policy::PluginPolicy;

/// Failures and pauses by file.
#[derive(Default)]
pub(crate) struct Backoff(Mutex<BTreeMap<PathBuf, Attempts>>);

#[derive(Default, Clone, Copy)]
struct Attempts {
    /// Consecutive failures.
    failures: u32,
    /// Incremented by each launch; a pause that started with an older number is cancelled.
    generation: u64,
}

impl Backoff {
    /// Records the start of a launch, which cancels a pause that is in progress for this file.
    pub(crate) fn start_launch(&self, file: &Path) {
        self.lock().entry(file.to_owned()).or_default().generation += 1;
    }

    /// Forgets the failures of a file that was changed: they say nothing about the new one.
    pub(crate) fn forget_failures(&self, file: &Path) {
        self.lock().entry(file.to_owned()).or_default().failures = 0;
    }

    /// Records the end of a plugin that was active for `active`. Returns the pause before its
    /// restart, and the generation that the pause belongs to.
    pub(crate) fn record_end(
        &self,
        file: &Path,
        active: Duration,
        policy: &PluginPolicy,
        config: &AdaptationConfig,
    ) -> (Duration, u64) {
        let mut all = self.lock();
        let attempts = all.entry(file.to_owned()).or_default();
        if active >= config.restart_backoff_limit {
            attempts.failures = 0;
        }
        let first = policy.restart_backoff.unwrap_or(config.restart_backoff);
        let pause = pause(first, config.restart_backoff_limit, attempts.failures);
        attempts.failures = attempts.failures.saturating_add(1);
        (pause, attempts.generation)
    }

    /// Whether no launch of the file has started since the pause of this generation began.
    pub(crate) fn is_current(&self, file: &Path, generation: u64) -> bool {
        self.lock().get(file).is_some_and(|attempts| attempts.generation == generation)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Attempts>> {
        self.0.lock()
    }
}

/// Returns the first pause, doubled with each failure up to the limit. A first pause that exceeds
/// the limit is never doubled.
fn pause(first: Duration, limit: Duration, failures: u32) -> Duration {
    let doubled = 2u32.checked_pow(failures).and_then(|factor| first.checked_mul(factor));
    doubled.unwrap_or(limit).min(limit.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let (first, limit) = (Duration::from_secs(1), Duration::from_secs(60));
        let pauses: Vec<_> =
            (0..9).map(|failures| pause(first, limit, failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause(first, limit, u32::MAX), limit);
        assert_eq!(pause(Duration::from_secs(90), limit, 5).as_secs(), 90);
        assert_eq!(pause(Duration::ZERO, limit, 5), Duration::ZERO);
    }

    #[test]
    fn a_plugin_that_was_active_for_long_or_changed_restarts_after_the_first_pause() {
        let (backoff, file) = (Backoff::default(), Path::new("/p"));
        let (config, policy) = (AdaptationConfig::default(), PluginPolicy::default());
        let end = |active| backoff.record_end(file, Duration::from_secs(active), &policy, &config);
        // The default first pause is 1 s, the default limit 60 s.
        let pauses: Vec<_> = [0, 0, 59, 60, 0].map(|active| end(active).0.as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 1, 2]);
        backoff.forget_failures(file);
        assert_eq!(end(0).0.as_secs(), 1);
        let own = PluginPolicy { restart_backoff: Some(Duration::from_secs(5)), ..policy.clone() };
        let (pause, _) = backoff.record_end(Path::new("/other"), Duration::ZERO, &own, &config);
        assert_eq!(pause.as_secs(), 5);
    }

    #[test]
    fn a_launch_cancels_a_pause_in_progress() {
        let (backoff, file) = (Backoff::default(), Path::new("/p"));
        let (config, policy) = (AdaptationConfig::default(), PluginPolicy::default());
        let (_, generation) = backoff.record_end(file, Duration::ZERO, &policy, &config);
        assert!(backoff.is_current(file, generation));
        backoff.start_launch(file);
        assert!(!backoff.is_current(file, generation));
    }
}
