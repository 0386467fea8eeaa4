//! Restoration of the engine's `config.json` in the bundle of a deleted container.

use crate::{bundle::config_json::Bundle, service::Service, state::record::Record};
use nri_host::sha256 as digest;
use std::time::Duration;

/// Time that a restoration waits for the bundle lock. A creation from the same bundle may hold the
/// lock for the timeouts of several plugins, and the engine waits for its `delete` meanwhile.
const BUNDLE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Restores the engine's `config.json`. If several containers were created from the same
    /// adjusted `config.json`, only the removal of the last one restores it. The caller must not
    /// hold the bundle lock.
    pub async fn restore_config(&self, record: &Record) {
        if record.bundle.written.is_none() {
            return;
        }
        let lock = self.locks.bundle(record.bundle.identity);
        let lock = tokio::time::timeout(BUNDLE_LOCK_TIMEOUT, lock).await;
        if lock.is_err() {
            // The creation that holds the lock has copied the original from this record; the
            // removal of its container restores it.
            tracing::warn!(
                container = record.key.id,
                bundle = %record.bundle.dir.display(),
                "config.json not restored yet: another creation uses the bundle"
            );
        } else if !self.registry.shares_config(record) {
            restore(record);
        }
    }
}

/// Restores the engine's `config.json`, if the bundle still has the adjusted one.
pub fn restore(record: &Record) {
    let (Some(original), Some(written)) = (&record.bundle.original, &record.bundle.written) else {
        return;
    };
    // Most engines remove the bundle before or after this, so a missing one is no error.
    let Ok(bundle) = Bundle::open(&record.bundle.dir, &record.bundle.name) else { return };
    // The path may be that of a new directory by now.
    if bundle.identity().is_ok_and(|i| i != record.bundle.identity) {
        return;
    }
    bundle.sweep();
    let Ok(found) = bundle.read() else { return };
    if found.link.is_some() || digest(&found.bytes) != *written {
        return;
    }
    let link = record.bundle.link.as_ref();
    if let Err(error) = bundle.restore(original.as_bytes(), link, &found, written) {
        let container = &record.key.id;
        tracing::warn!(container, %error, "cannot restore the engine's config.json");
    }
}
