//! Launches again what ended: after a pause, which doubles from one failure to the next.
//!
//! It is here and not with the host, because the end of a program, its next launch and the shutdown
//! have to agree on who acts: a host that launched on
//! [`ContainerManager::plugin_changed`](crate::ContainerManager::plugin_changed) would race with
//! all three. A plugin that is back is synchronized like any that comes. Whether a plugin that is
//! gone fails creations is the policy's business (`required`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::debug;

use crate::adaptation::Inner;
use crate::discovery::{Found, examine};
use crate::{AdaptationConfig, PluginPolicy, SessionError, SkipReason};

/// What is known about files that were launched.
#[derive(Default)]
pub(crate) struct Restarts(Mutex<BTreeMap<PathBuf, Attempts>>);

#[derive(Default, Clone, Copy)]
struct Attempts {
    /// Failures in a row.
    failures: u32,
    /// Whoever launches the file takes the next number; a pause that began under another is void.
    turn: u64,
}

impl Restarts {
    /// Begins a launch: a pause that is under way for this file ends without one.
    pub(crate) fn begin(&self, file: &Path) {
        self.lock().entry(file.to_owned()).or_default().turn += 1;
    }

    /// Notes an end, and gives the pause that follows, and the turn that it holds for.
    fn note(
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
        (pause, attempts.turn)
    }

    fn is_turn(&self, file: &Path, turn: u64) -> bool {
        self.lock().get(file).is_some_and(|attempts| attempts.turn == turn)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Attempts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first pause, doubled with each failure, and no longer than the limit; a first pause that is
/// longer stays as it is.
fn pause(first: Duration, limit: Duration, failures: u32) -> Duration {
    let doubled = 2u32.checked_pow(failures).and_then(|factor| first.checked_mul(factor));
    doubled.unwrap_or(limit).min(limit.max(first))
}

impl Inner {
    /// Sees to it that a launched plugin that ended, after it was `active` for so long, is launched
    /// again, if it is to be.
    pub(crate) fn restart(self: &Arc<Self>, plugin: &Found, active: Duration) {
        let policy = self.config().policy(&plugin.id);
        if !policy.restart || self.is_shutting_down() {
            return;
        }
        let (inner, plugin) = (self.clone(), plugin.clone());
        self.spawn(async move { inner.restart_until_up(&plugin, &policy, active).await });
    }

    /// Returns when the plugin is in the line: at its end from there, this begins anew.
    async fn restart_until_up(
        self: Arc<Self>,
        plugin: &Found,
        policy: &PluginPolicy,
        mut active: Duration,
    ) {
        let path = &plugin.path;
        loop {
            let (pause, turn) = self.restarts.note(path, active, policy, &self.config());
            active = Duration::ZERO;
            if let Some(status) = self.registry.restarting(path) {
                debug!(plugin = %plugin.id, "launched again in {pause:?}");
                self.changed(status);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shutting_down() => return,
            }
            let _launching = self.launching.read().await;
            // Also one that was launched between its end and the beginning of the pause.
            if !self.restarts.is_turn(path, turn) || self.registry.is_there(path) {
                return;
            }
            let found = match self.find_again(path).await {
                Ok(found) => found,
                Err(e) => {
                    if let Some(status) = self.registry.given_up(path, &e.to_string()) {
                        self.changed(status);
                    }
                    return;
                }
            };
            let serial = self.registry.serial();
            match self.clone().bring_up(found, serial).await {
                Ok(ready) => {
                    // Its failure ends the session, which was in the line.
                    let _ = self.admit(ready).await;
                    return;
                }
                // The host was told.
                Err(e) => debug!(plugin = %plugin.id, "could not be launched again: {e}"),
            }
        }
    }

    async fn find_again(&self, path: &Path) -> Result<Found, SessionError> {
        let (path, config) = (path.to_owned(), self.config());
        let examined = tokio::task::spawn_blocking(move || examine(&path, &config)).await;
        let examined = examined.map_err(|e| SkipReason::Unreadable(std::io::Error::other(e)))?;
        match examined {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(SessionError::NotExecutable),
            Err(SkipReason::Unreadable(e)) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(SessionError::FileGone)
            }
            Err(e) => Err(e.into()),
        }
    }
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
    fn who_was_active_for_long_begins_anew_and_a_launch_voids_a_pause() {
        let (restarts, file) = (Restarts::default(), Path::new("/p"));
        let (config, policy) = (AdaptationConfig::default(), PluginPolicy::default());
        let note = |active| restarts.note(file, Duration::from_secs(active), &policy, &config);
        let pauses: Vec<_> = [0, 0, 59, 60, 0].map(|active| note(active).0.as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 1, 2]);
        let (_, turn) = note(0);
        assert!(restarts.is_turn(file, turn));
        restarts.begin(file);
        assert!(!restarts.is_turn(file, turn));
        let own = PluginPolicy { restart_backoff: Some(Duration::from_secs(5)), ..policy.clone() };
        assert_eq!(
            restarts.note(Path::new("/other"), Duration::ZERO, &own, &config).0.as_secs(),
            5
        );
    }
}
