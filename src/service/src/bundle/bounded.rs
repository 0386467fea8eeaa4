//! Access to the bundle of a creation with time limits: its file system may hang, while `nrid`
//! serves other containers. A runtime would wait without a limit.

use crate::{
    bundle::config_json::{Bundle, BundleError, Found, Link},
    host::{
        file_access::{self, FileSystem, FileSystemHangs},
        near_files,
    },
    state::locks::{LockGuard, Locks},
};
use std::{io, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Time limit of reading or replacing a `config.json`, which takes less than a millisecond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the bundle as [`Bundle::new`] does.
///
/// # Errors
/// Those of [`Bundle::new`], or the time limit is reached.
pub async fn open(dir: OwnedFd, path: &Path, config: Option<&Path>) -> Result<Bundle, BundleError> {
    // The file may be in a directory below, on any file system.
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

/// Waits for the lock of a bundle.
///
/// # Errors
/// A change of the bundle that is past its time limit keeps the lock.
pub async fn lock(locks: &Locks, bundle: &Bundle) -> Result<LockGuard, BundleError> {
    let lock = locks.bundle(bundle.identity());
    tokio::pin!(lock);
    loop {
        if let Ok(lock) = timeout(TIMEOUT, &mut lock).await {
            return Ok(lock);
        }
        let device = FileSystem::Device(bundle.identity().0);
        if file_access::hangs(&bundle.file_system()) || file_access::hangs(&device) {
            return Err(BundleError::Hangs(bundle.file()));
        }
    }
}

/// Reads `config.json` as [`Bundle::read`] does.
///
/// # Errors
/// Those of [`Bundle::read`], or the time limit is reached.
pub async fn read(bundle: Bundle) -> Result<(Bundle, Found), BundleError> {
    if bundle.is_near() && matches!(bundle.link(), Ok(None)) {
        return bundle.read().map(|found| (bundle, found));
    }
    let file = bundle.file();
    let file_system = bundle.file_system();
    // The target of a link may be on another file system.
    let is_link = move || (matches!(bundle.link(), Ok(Some(_))), bundle);
    let (file_system, bundle) = match file_access::run(file_system.clone(), TIMEOUT, is_link).await
    {
        Ok((true, bundle)) => (FileSystem::Linked, bundle),
        Ok((false, bundle)) => (file_system, bundle),
        Err(FileSystemHangs) => return Err(BundleError::Hangs(file)),
    };
    let read = move || bundle.read().map(|found| (bundle, found));
    file_access::run(file_system, TIMEOUT, read).await.unwrap_or(Err(BundleError::Hangs(file)))
}

/// What replaces a `config.json`.
#[derive(Debug)]
pub enum Replacement {
    /// A file with this text.
    File(Vec<u8>),
    /// The engine's symbolic link.
    Link(Link),
}

impl Replacement {
    fn perform(&self, bundle: &Bundle, found: &Found) -> Result<(), BundleError> {
        match self {
            Self::File(text) => bundle.replace(text, found),
            Self::Link(link) => bundle.restore_link(link, found),
        }
    }
}

/// Replaces `config.json` as [`Bundle::replace`] and [`Bundle::restore_link`] do. Keeps `creation`,
/// with the bundle and its lock, until the file system replies.
///
/// # Errors
/// Those of [`Bundle::replace`], or the time limit is reached; a replacement that ends later is
/// undone.
pub async fn replace<T: Send + Sync + 'static>(
    creation: Arc<T>,
    parts: fn(&T) -> (&Bundle, &Found),
    replacement: Replacement,
) -> Result<(), BundleError> {
    let (bundle, found) = parts(&creation);
    if bundle.is_near() {
        return replacement.perform(bundle, found);
    }
    let file_system = bundle.file_system();
    let kept = creation.clone();
    let replace = move || {
        let (bundle, found) = parts(&kept);
        replacement.perform(bundle, found)
    };
    match file_access::run(file_system, TIMEOUT, replace).await {
        Ok(replaced) => replaced,
        Err(error) if bundle.effect().give_up() => {
            let error = io::Error::new(io::ErrorKind::TimedOut, error);
            Err(BundleError::Replace(bundle.file(), error))
        }
        // The new file is there, and only the removal of the old one hangs.
        Err(FileSystemHangs) => Ok(()),
    }
}
