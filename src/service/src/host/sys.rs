//! System calls without a safe wrapper in a library. All `unsafe` of the crate is here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Makes every descriptor from `first` on close-on-exec.
///
/// # Errors
/// The kernel is older than 5.11.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call only sets a flag; no descriptor is closed or
    // changes its meaning.
    let rc = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes ownership of a descriptor inherited from the parent, and makes it close-on-exec. Call only
/// at the start of the process, once for each number.
///
/// # Errors
/// The descriptor is not open.
pub(crate) fn take_descriptor(number: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call sets a flag of a descriptor, or fails if the descriptor is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, since fcntl succeeded, and has no other owner: this process
    // has not opened a descriptor yet, and each number is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Removes variables from the environment. Call only at the start of the process.
pub(crate) fn remove_variables(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::remove_var(name) };
    }
}

/// Registers a descriptor for waiting until it is readable.
///
/// # Errors
/// The kernel cannot wait for this kind of descriptor.
pub(crate) fn wait_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd returns the same open descriptor for as long as it lives, and AsyncFd owns
    // it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(Into::into)
}

/// First version of the kernel's `struct pidfd_info` (include/uapi/linux/pidfd.h).
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// Mask bit that requests [`PidfdInfo::exit_code`].
const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// Request number `_IOWR(0xFF, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::Ioctl =
    (3 << 30) | ((size_of::<PidfdInfo>() as libc::Ioctl) << 16) | (0xFF << 8) | 11;

/// Returns the wait status of a reaped process, `None` before it is reaped.
///
/// # Errors
/// The kernel does not support the request.
pub(crate) fn pidfd_exit_status(pidfd: &OwnedFd) -> io::Result<Option<i32>> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the argument is a valid, exclusively borrowed struct of the size that the request
    // number states; a kernel that does not know the request fails without touching it.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// Whether the kernel reports the status: 6.15 or later.
    fn kernel_reports_status() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(15))
    }

    #[test]
    fn a_reaped_process_has_its_wait_status() {
        for (script, status) in
            [("read x; exit 3", 3 << 8), ("read x; exit 0", 0), ("read x; kill -9 $$", 9)]
        {
            let mut command = std::process::Command::new("sh");
            let mut child =
                command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            let reported = || pidfd_exit_status(&pidfd).ok().flatten();
            assert_eq!(reported(), None, "{script}: it lives");
            child.wait().unwrap(); // closes its stdin
            assert_eq!(reported(), kernel_reports_status().then_some(status), "{script}");
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(pidfd_exit_status(&file.into()).is_err(), "no process");
    }
}
