//! Files of a container or of the host, opened without following links out of a root.

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Opens a path with `root` as the root directory, without following magic links of /proc.
pub(super) fn within(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    more: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

pub(super) fn place(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

pub(super) fn read(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file =
        open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    content(file.into(), limit).ok()?
}

/// Reads a file; `None` if it is not a regular file, or larger than `limit`.
pub(super) fn content(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
