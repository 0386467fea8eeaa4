//! Stdio descriptors that the caller has closed.

use rustix::fs::{Mode, OFlags};

/// Opens /dev/null in place of closed stdio descriptors.
///
/// Otherwise the next socket would become stdin or stderr. With close-on-exec, the real runtime
/// starts with the same descriptors closed as this process.
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
