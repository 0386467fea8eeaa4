//! Lock that allows one `nrid` per state directory.

use crate::process::activation::file_id;
use rustix::fs::{FlockOperation, Mode, OFlags, fstat};
use std::{io, os::fd::OwnedFd, path::Path};

/// Takes the lock, which the returned descriptor holds; `None` if another `nrid` has it.
///
/// # Errors
/// The file cannot be opened.
pub fn take(state_dir: &Path) -> io::Result<Option<OwnedFd>> {
    let file = rustix::fs::open(
        state_dir.join(nri_files::LIFE_LOCK),
        OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::RUSR | Mode::WUSR,
    )?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Whether the locked file still is at its path in the state directory.
pub fn is_at_path(lock: &OwnedFd, state_dir: &Path) -> bool {
    let file = fstat(lock).ok().map(|stat| (stat.st_dev, stat.st_ino));
    file.is_some() && file_id(&state_dir.join(nri_files::LIFE_LOCK)) == file
}
