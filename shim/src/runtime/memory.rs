//! Files in memory (memfd) that the real runtime reads. Unlike a temporary file, they need no
//! removal; unlike a pipe, they cannot block the writer.

use std::{
    fs::File,
    io::{self, Seek, Write},
    os::fd::OwnedFd,
};

/// Returns a descriptor from which `content` can be read, from its beginning; close-on-exec.
pub(crate) fn file_with(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}
