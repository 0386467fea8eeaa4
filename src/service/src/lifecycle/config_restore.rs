//! Restoration of the engine's `config.json` in the bundle of a deleted container.

use crate::{
    bundle::config_json::Bundle,
    host::file_access::{self, FileSystem, FileSystemHangs},
    service::Service,
    state::record::Record,
};
use nri_host::sha256 as digest;
use rustix::fs::OFlags;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::sleep;

/// Time that a restoration waits for the bundle lock. A creation from the same bundle may hold the
/// lock for the timeouts of several plugins, and the engine waits for its `delete` meanwhile.
const BUNDLE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a restoration, which takes less than a millisecond: the engine waits for its
/// `delete`, and removes the bundle afterwards.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which a restoration that no thread has begun is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Service {
    /// Restores the engine's `config.json`. If several containers were created from the same
    /// adjusted `config.json`, only the removal of the last container restores it. The caller must
    /// not hold the bundle lock.
    pub async fn restore_config(&self, record: &Record) {
        if record.bundle.written.is_none() {
            return;
        }
        let lock = self.locks.bundle(record.bundle.identity);
        let lock = tokio::time::timeout(BUNDLE_LOCK_TIMEOUT, lock).await;
        if lock.is_err() {
            // The creation that holds the lock has copied the original config.json from this
            // record. The removal of that creation's container restores the file.
            tracing::warn!(
                container = record.key.id,
                pod = record.pod_id,
                bundle = %record.bundle.dir.display(),
                "config.json not restored yet: another creation uses the bundle"
            );
        } else if !self.registry.shares_config(record) {
            restore(record, lock).await;
        }
    }
}

/// Restores the engine's `config.json`, if the bundle still has the adjusted one. Keeps `lock`
/// until the file system of the bundle replies, which may be after this call. If no thread is free,
/// another task waits for one.
pub async fn restore(record: &Record, lock: impl Send + 'static) {
    let pending = Arc::new(Mutex::new(Some((record.clone(), lock))));
    if let Err(error) = try_restore(record.bundle.identity.0, &pending).await {
        tracing::warn!(
            container = record.key.id,
            pod = record.pod_id,
            bundle = %record.bundle.dir.display(),
            "config.json not restored yet, it is restored when the file system replies: {error}"
        );
        let device = record.bundle.identity.0;
        tokio::spawn(async move {
            while is_pending(&pending) && try_restore(device, &pending).await.is_err() {
                sleep(RETRY_INTERVAL).await;
            }
        });
    }
}

/// A restoration that no thread has begun, with the lock that is kept until its end.
type Pending<T> = Arc<Mutex<Option<(Record, T)>>>;

fn is_pending<T>(pending: &Pending<T>) -> bool {
    pending.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Restores a `config.json`, unless another thread has begun to do so. After an error, a
/// restoration that a thread has begun continues.
async fn try_restore<T: Send + 'static>(
    device: u64,
    pending: &Pending<T>,
) -> Result<(), FileSystemHangs> {
    let pending = pending.clone();
    let restore = move || {
        let begun = pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((record, lock)) = begun {
            restore_now(&record);
            drop(lock);
        }
    };
    file_access::run(FileSystem::Device(device), RESTORE_TIMEOUT, restore).await
}

fn restore_now(record: &Record) {
    let (Some(original), Some(written)) = (&record.bundle.original, &record.bundle.written) else {
        return;
    };
    // Engines remove the bundle at about the same time, so a missing bundle is no error.
    let Ok(dir) = record.runtime.open(&record.bundle.dir, OFlags::DIRECTORY) else { return };
    let Ok(bundle) = Bundle::new(dir, &record.bundle.dir, Some(Path::new(&record.bundle.name)))
    else {
        return;
    };
    // The engine may have created a new bundle at the path.
    if bundle.identity() != record.bundle.identity {
        return;
    }
    bundle.remove_temporary();
    let Ok(found) = bundle.read() else { return };
    if found.link.is_some() || digest(&found.bytes) != *written {
        return;
    }
    let link = record.bundle.link.as_ref();
    if let Err(error) = bundle.restore(original.as_bytes(), link, &found, written) {
        let (container, pod) = (&record.key.id, &record.pod_id);
        tracing::warn!(container, pod, %error, "cannot restore the engine's config.json");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use std::{fs, os::unix::fs::MetadataExt, sync::mpsc};

    #[tokio::test]
    async fn a_restoration_that_gets_no_thread_is_done_when_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.json");
        fs::write(&config, "adjusted").unwrap();
        let meta = fs::metadata(dir.path()).unwrap();
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.bundle.dir = dir.path().to_owned();
        record.bundle.identity = (meta.dev(), meta.ino());
        record.bundle.original = Some("original".to_owned());
        record.bundle.written = Some(digest(b"adjusted"));
        record.bundle.link = None;

        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..file_access::MAX_THREADS {
            let ended = ended.clone();
            let hang = move || drop(ended.lock().map(|ended| ended.recv()));
            let file_system = FileSystem::Device(meta.dev());
            file_access::run(file_system, Duration::ZERO, hang).await.unwrap_err();
        }
        let (lock, unlocked) = tokio::sync::oneshot::channel::<()>();
        restore(&record, lock).await;
        assert_eq!(fs::read_to_string(&config).unwrap(), "adjusted");
        drop(end);
        unlocked.await.unwrap_err();
        assert_eq!(fs::read_to_string(&config).unwrap(), "original");
    }
}
