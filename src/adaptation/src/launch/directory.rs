//! Reads the plugin directory on a thread that may block, one read at a time: a file system that
//! hangs blocks only one thread, however many callers wait.

use crate::config::AdaptationConfig;
use crate::launch::discovery::{PluginFiles, discover};
use crate::launch::skip_reason::SkipReason;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Time limit of a read, which takes milliseconds unless the file system hangs.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Content of the plugin directory.
#[derive(Debug)]
pub(crate) struct Discovered {
    pub(crate) found: PluginFiles,
    /// Those of the files of earlier launches, as the first caller named them, that still exist.
    pub(crate) existing: BTreeSet<PathBuf>,
    config: Arc<AdaptationConfig>,
    begin: Instant,
}

/// Reads the plugin directory. Holds the last result, which callers that waited for it share.
#[derive(Debug, Default)]
pub(crate) struct DirectoryReader(Arc<Mutex<Option<Arc<Discovered>>>>);

impl DirectoryReader {
    /// Examines the files of the plugin directory, and checks which of the `launched` files exist.
    ///
    /// # Errors
    /// [`SkipReason::Hangs`] if this read, or an earlier one, does not end within `limit`.
    pub(crate) async fn discover(
        &self,
        config: Arc<AdaptationConfig>,
        launched: Vec<PathBuf>,
        limit: Duration,
    ) -> Result<Arc<Discovered>, SkipReason> {
        let requested = Instant::now();
        let discovered = async {
            let mut last = self.0.clone().lock_owned().await;
            if let Some(last) = &*last
                && last.begin >= requested
                && Arc::ptr_eq(&last.config, &config)
            {
                return Ok(last.clone());
            }
            // The thread keeps the lock if the caller stops waiting.
            let read = spawn_blocking(move || {
                let begin = Instant::now();
                let found = discover(&config);
                let existing = launched.into_iter().filter(|path| path.exists()).collect();
                let discovered = Arc::new(Discovered { found, existing, config, begin });
                *last = Some(discovered.clone());
                discovered
            });
            read.await.map_err(|e| SkipReason::Unreadable(e.into()))
        };
        timeout(limit, discovered).await.unwrap_or(Err(SkipReason::Hangs(limit)))
    }

    /// Reads one file of the directory.
    ///
    /// # Errors
    /// The error of `read`, or [`SkipReason::Hangs`] if this read, or an earlier one, does not end
    /// within [`READ_TIMEOUT`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, SkipReason> + Send + 'static,
    ) -> Result<T, SkipReason> {
        let read = async {
            let lock = self.0.clone().lock_owned().await;
            let read = spawn_blocking(move || {
                let _lock = lock;
                read()
            });
            read.await.unwrap_or_else(|e| Err(SkipReason::Unreadable(e.into())))
        };
        timeout(READ_TIMEOUT, read).await.unwrap_or(Err(SkipReason::Hangs(READ_TIMEOUT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_wait_for_a_read_that_hangs_and_share_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let config = Arc::new(AdaptationConfig {
            plugin_path: dir.path().into(),
            ..AdaptationConfig::default()
        });
        let reader = Arc::new(DirectoryReader::default());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let hanging = reader.read(move || {
            let _ = ended.recv();
            Ok(())
        });
        let limit = Duration::from_millis(50);
        assert!(timeout(limit, hanging).await.is_err());
        for _ in 0..20 {
            let found = reader.discover(config.clone(), Vec::new(), limit).await;
            assert!(matches!(found, Err(SkipReason::Hangs(_))), "{found:?}");
        }
        let discover = || {
            let (reader, config) = (reader.clone(), config.clone());
            let limit = Duration::from_secs(60);
            tokio::spawn(async move { reader.discover(config, Vec::new(), limit).await.unwrap() })
        };
        let waiting: Vec<_> = (0..20).map(|_| discover()).collect();
        // The runtime has one thread: each task runs until it waits.
        tokio::task::yield_now().await;
        end.send(()).unwrap();
        let mut found = Vec::new();
        for task in waiting {
            found.push(task.await.unwrap());
        }
        let are_shared = found.iter().all(|d| Arc::ptr_eq(d, &found[0]));
        assert!(are_shared, "the waiting callers did not share one result");
        let later = discover().await.unwrap();
        assert!(!Arc::ptr_eq(&later, &found[0]), "a later caller got an earlier result");
    }
}
