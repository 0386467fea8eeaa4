//! Reads the bundle of a container that is being created, within time limits: in place if it is
//! near (`near_files.rs`), else by `file_access.rs`. The bundle's file system may hang, and `nrid`
//! must still serve other containers. For bundles of engines; those of `nrid` are near.

use crate::{
    bundle::config_json::{Bundle, BundleError},
    host::{
        file_access::{self, FileSystem, FileSystemHangs},
        near_files,
    },
};
use std::{os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time limit of reading a `config.json`, which takes less than a millisecond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Size of a `config.json` in bytes above which only [`LARGE_CONFIGS`] of them are handled at once,
/// to bound memory: plugins get them in other forms, which take a multiple. Those of almost all
/// containers are smaller.
const LARGE_CONFIG: usize = 256 << 10;

/// Maximum number of creations with a large `config.json` at once.
const LARGE_CONFIGS: usize = 4;

/// Permits for creations with a large `config.json`.
#[derive(Debug, Clone)]
pub struct LargeConfigs(Arc<Semaphore>);

impl Default for LargeConfigs {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_CONFIGS)))
    }
}

impl LargeConfigs {
    /// Reads `config.json` as [`read`] does. With a large one comes a permit, which the creation
    /// keeps to its end; meanwhile, it is not in memory.
    ///
    /// # Errors
    /// Those of [`read`].
    pub async fn read(
        &self,
        bundle: Bundle,
    ) -> Result<(Bundle, Vec<u8>, Option<OwnedSemaphorePermit>), BundleError> {
        let (bundle, text) = read(bundle).await?;
        if text.len() <= LARGE_CONFIG {
            return Ok((bundle, text, None));
        }
        drop(text);
        // Nothing closes the semaphore.
        let permit = self.0.clone().acquire_owned().await.ok();
        let (bundle, text) = read(bundle).await?;
        Ok((bundle, text, permit))
    }
}

/// Returns the bundle as [`Bundle::new`] does.
///
/// # Errors
/// The errors of [`Bundle::new`], and [`BundleError::Hangs`] if the time limit is reached.
pub async fn open(dir: OwnedFd, path: &Path, config: Option<&Path>) -> Result<Bundle, BundleError> {
    // A `config` in a subdirectory may be on another file system than `dir`.
    if config.is_none_or(|config| config.file_name() == Some(config.as_os_str()))
        && near_files::is_near(&dir)
    {
        return Bundle::new(dir, path, config);
    }
    let (path, config) = (path.to_owned(), config.map(Path::to_owned));
    let hangs = BundleError::Hangs(path.clone());
    let file_system = FileSystem::of(&dir);
    let open = move || Bundle::new(dir, &path, config.as_deref());
    file_access::run(file_system, TIMEOUT, open).await.unwrap_or(Err(hangs))
}

/// Reads `config.json` as [`Bundle::read`] does.
///
/// # Errors
/// The errors of [`Bundle::read`], and [`BundleError::Hangs`] if the time limit is reached.
pub async fn read(bundle: Bundle) -> Result<(Bundle, Vec<u8>), BundleError> {
    if bundle.is_near() && !bundle.is_link() {
        return bundle.read().map(|found| (bundle, found));
    }
    let file = bundle.file();
    let file_system = bundle.file_system();
    // The target of a link may be on another file system.
    let is_link = move || (bundle.is_link(), bundle);
    let (file_system, bundle) = match file_access::run(file_system.clone(), TIMEOUT, is_link).await
    {
        Ok((true, bundle)) => (FileSystem::Linked, bundle),
        Ok((false, bundle)) => (file_system, bundle),
        Err(FileSystemHangs) => return Err(BundleError::Hangs(file)),
    };
    let read = move || bundle.read().map(|found| (bundle, found));
    file_access::run(file_system, TIMEOUT, read).await.unwrap_or(Err(BundleError::Hangs(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// Creations with 16 MiB each added up to gigabytes.
    #[tokio::test]
    async fn few_large_configs_are_handled_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = |size: usize| {
            fs::write(dir.path().join("config.json"), vec![b' '; size]).unwrap();
            let fd = OwnedFd::from(File::open(dir.path()).unwrap());
            Bundle::new(fd, dir.path(), None).unwrap()
        };
        let large = LargeConfigs::default();
        let mut held = Vec::new();
        for _ in 0..LARGE_CONFIGS {
            let (_, text, permit) = large.read(bundle(LARGE_CONFIG + 1)).await.unwrap();
            assert_eq!(text.len(), LARGE_CONFIG + 1);
            held.push(permit.unwrap());
        }
        let mut waiting = Box::pin(large.read(bundle(LARGE_CONFIG + 1)));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());
        held.pop();
        assert!(waiting.await.unwrap().2.is_some());
        assert!(large.read(bundle(LARGE_CONFIG)).await.unwrap().2.is_none());
    }
}
