//! Text that stands in for stdin: a file in memory, so that neither end can block the other.

use crate::Error;
use std::{
    fs::File,
    io::{Seek, Write},
    os::fd::OwnedFd,
};

/// A descriptor from which `content` can be read.
pub(crate) fn holding(content: &[u8]) -> Result<OwnedFd, Error> {
    let made = || -> std::io::Result<OwnedFd> {
        let fd = rustix::fs::memfd_create("resources", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(fd);
        file.write_all(content)?;
        file.rewind()?;
        Ok(file.into())
    };
    made().map_err(|e| Error::System(e, "hand over the resources"))
}
