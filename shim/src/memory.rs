//! Text as a file in memory, to be read by the real runtime: nobody has to remove it, and neither
//! end can block the other.

use std::{
    fs::File,
    io::{self, Seek, Write},
    os::fd::OwnedFd,
};

/// A descriptor from which `content` can be read, from its beginning; close-on-exec.
pub(crate) fn holding(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}
