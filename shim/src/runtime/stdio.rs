//! Stdio descriptors that the caller has closed.

use rustix::{
    fs::{Mode, OFlags, open},
    io::{Errno, fcntl_getfd},
    stdio::{stderr, stdin, stdout},
};

/// Opens /dev/null in place of closed stdio descriptors.
///
/// Otherwise the next socket would become stdin or stderr. With close-on-exec, the real runtime
/// starts with the same descriptors closed as this process.
pub(crate) fn reserve() {
    for fd in [stdin(), stdout(), stderr()] {
        if fcntl_getfd(fd) == Err(Errno::BADF)
            // The lowest free number, which is this one.
            && let Ok(fd) = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        {
            // Stays open until `execve`.
            std::mem::forget(fd);
        }
    }
}
