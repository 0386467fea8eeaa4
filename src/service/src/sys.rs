//! The calls that no library offers safely. All `unsafe` of the crate is here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};
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

/// `struct pidfd_info` of the kernel's first version of it (include/uapi/linux/pidfd.h).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// Asks for [`PidfdInfo::exit_code`].
const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xFF, 11, struct pidfd_info)`
const PIDFD_GET_INFO: libc::Ioctl =
    (3 << 30) | ((size_of::<PidfdInfo>() as libc::Ioctl) << 16) | (0xFF << 8) | 11;

/// The wait status of a process that has ended and was reaped; `None` where the kernel does not tell.
pub(crate) fn pidfd_exit_status(pidfd: &OwnedFd) -> Option<i32> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the argument is a valid, exclusively borrowed struct of the size that the request number states; a kernel that does not know the
    // request fails without touching it.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (rc == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}
