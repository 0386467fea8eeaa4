//! Restoring the engine's `config.json` in the bundle of a container that is deleted.

use crate::{bundle::config_json::Bundle, service::Service, state::record::Record};
use nri_host::sha256 as digest;
use std::time::Duration;

/// Time that a restoration waits for the bundle lock. A creation from the same bundle holds it,
/// perhaps for the timeouts of several plugins; the engine waits for its `delete` meanwhile.
const BUNDLE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Restores the engine's `config.json`, unless another container was created from the same
    /// adjusted one: then it is restored with the last of them. The caller must not hold the bundle
    /// lock.
    pub async fn restore_config(&self, record: &Record) {
        if record.bundle.written.is_none() {
            return;
        }
        let lock = self.locks.bundle(record.bundle.identity);
        let lock = tokio::time::timeout(BUNDLE_LOCK_TIMEOUT, lock).await;
        if lock.is_err() {
            // The creation that holds the lock for so long knows the original from this record, and
            // restores it in the end.
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

/// Restores the engine's `config.json`, if the bundle still has the one that replaced it.
pub fn restore(record: &Record) {
    let (Some(original), Some(written)) = (&record.bundle.original, &record.bundle.written) else {
        return;
    };
    // Most engines have removed the bundle by now, or will.
    let Ok(bundle) = Bundle::open(&record.bundle.dir, &record.bundle.name) else { return };
    // Another directory may have taken the path.
    if bundle.identity().is_ok_and(|i| i != record.bundle.identity) {
        return;
    }
    bundle.sweep();
    let Ok(found) = bundle.read() else { return };
    if found.link.is_some() || digest(&found.bytes) != *written {
        return;
    }
    let link = record.bundle.link.as_ref();
    if let Err(error) = bundle.give_back(original.as_bytes(), link, &found, written) {
        tracing::warn!(container = record.key.id, %error, "cannot restore the engine's \
        config.json");
    }
}
