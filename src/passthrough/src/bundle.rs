//! The bundle of a container, opened without a C library.

use crate::path_buffer::PathBuffer;
use core::mem::ManuallyDrop;
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    fs::{Mode, OFlags, open, stat},
};

/// An open bundle directory.
#[derive(Debug)]
pub(crate) struct EarlyBundle {
    /// `ManuallyDrop`, since the drop of a descriptor calls the C library.
    fd: ManuallyDrop<OwnedFd>,
    close: fn(RawFd),
}

impl EarlyBundle {
    /// Opens the bundle at an absolute path. Returns `None` if it has no `config.json`: then no
    /// container is created, and the wrapper lets the runtime report that.
    pub(crate) fn open(path: &[u8], close: fn(RawFd)) -> Option<Self> {
        let mut buffer = PathBuffer::default();
        stat(buffer.set(&[path, b"/config.json"])?).ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(buffer.set(&[path])?, flags, Mode::empty()).map(ManuallyDrop::new);
        let Ok(fd) = opened else { return None };
        let bundle = Self { fd, close };
        // Stdio that the caller has closed must not become the directory.
        if bundle.fd.as_raw_fd() > 2 {
            return Some(bundle);
        }
        bundle.close();
        None
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn close(&self) {
        (self.close)(self.fd.as_raw_fd());
    }
}
