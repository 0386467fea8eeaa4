//! The calls that no library offers safely. All `unsafe` of the crate is here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Makes every descriptor from `first` on close-on-exec.
///
/// # Errors
/// A kernel before 5.11.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call only sets a flag; no descriptor is closed or
    // changes its meaning.
    let rc = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a descriptor that the starter passed, and makes it close-on-exec. Only at the start of
/// the process, for each number once.
///
/// # Errors
/// There is no such descriptor.
pub(crate) fn take_descriptor(number: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call sets a flag of a descriptor, or fails where there is none.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as was just seen, and nobody else owns it: nothing in this process has
    // opened a descriptor yet, and each number is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Removes variables from the environment. Only at the start of the process.
pub(crate) fn remove_variables(names: &[&str]) {
    for name in names {
        // SAFETY: there is no other thread yet that could read the environment.
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

/// The wait status of a process that has ended and was reaped, `None` before that.
///
/// # Errors
/// The kernel does not tell.
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

    /// Whether the kernel is one that tells: 6.15.
    fn tells() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(15))
    }

    #[test]
    fn how_a_process_ended() {
        for (script, status) in
            [("read x; exit 3", 3 << 8), ("read x; exit 0", 0), ("read x; kill -9 $$", 9)]
        {
            let mut command = std::process::Command::new("sh");
            let mut child =
                command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            let told = || pidfd_exit_status(&pidfd).ok().flatten();
            assert_eq!(told(), None, "{script}: it lives");
            child.wait().unwrap(); // closes its stdin
            assert_eq!(told(), tells().then_some(status), "{script}");
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(pidfd_exit_status(&file.into()).is_err(), "no process");
    }
}
