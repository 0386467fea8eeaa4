//! Opens and reads files of containers and of the host. Links cannot lead out of a root directory.

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Opens a path with `root` as the root directory, without following magic links of /proc.
/// `resolve` adds restrictions.
pub(super) fn open_in_root(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | resolve;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Returns the path of an open file.
pub(super) fn path_of(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Reads an open file; `None` if it is not a regular file, or is larger than `limit` bytes.
pub(super) fn content(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
