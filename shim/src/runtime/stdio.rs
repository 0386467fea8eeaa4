//! Stdio that the caller closed.

use rustix::fs::{Mode, OFlags};

/// Opens /dev/null in place of closed stdio, until `execve` closes it again.
///
/// The next socket would become stdin or stderr otherwise, and the real runtime must find them
/// closed as this program did.
pub(crate) fn reserve() {
    loop {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::open("/dev/null", flags, Mode::empty()) else { return };
        if std::os::fd::AsRawFd::as_raw_fd(&fd) > 2 {
            return;
        }
        // Stays open until `execve`.
        std::mem::forget(fd);
    }
}
