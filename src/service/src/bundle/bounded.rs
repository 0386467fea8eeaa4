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
use std::{os::fd::OwnedFd, path::Path, time::Duration};

/// Time limit of reading a `config.json`, which takes less than a millisecond.
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
