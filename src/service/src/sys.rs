//! The calls that no library offers safely. All `unsafe` of the crate is here.
#![allow(unsafe_code)]

use std::{io, os::fd::OwnedFd};
use tokio::io::{Interest, unix::AsyncFd};

/// Makes every descriptor from `first` on close-on-exec.
///
/// # Errors
/// A kernel before 5.11.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call only sets a flag; no descriptor is closed or changes its meaning.
    let rc = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Registers a descriptor for waiting until it is readable.
///
/// # Errors
/// The kernel cannot wait for this kind of descriptor.
pub(crate) fn wait_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd returns the same open descriptor for as long as it lives, and AsyncFd owns it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(Into::into)
}
