//! Stdio that the caller closed.

use rustix::fs::{Mode, OFlags};

/// Fills the places of closed stdio with a file that is closed again by `execve`: otherwise the
/// next socket that we open would become stdin or stderr, and the real runtime must find them
/// closed as we did.
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
