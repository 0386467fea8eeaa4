//! Access to the bundle of a container that is being created, within time limits. The bundle's file
//! system may hang, and `nrid` must still serve other containers.

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

/// Waits for the lock of a bundle.
///
/// # Errors
/// An earlier change of the bundle holds the lock and has passed its time limit.
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
/// The errors of [`Bundle::read`], and [`BundleError::Hangs`] if the time limit is reached.
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

/// The file or link that replaces a `config.json`.
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
/// which holds the bundle and the bundle's lock, until the file system replies.
///
/// # Errors
/// The errors of [`Bundle::replace`], also if the time limit is reached. A replacement that ends
/// after the time limit is undone.
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
        // The new file is in place; only the removal of the old file hangs.
        Err(FileSystemHangs) => Ok(()),
    }
}
