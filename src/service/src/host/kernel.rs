//! Checks of the kernel: whether it has the system call that `nrid` cannot work without, and
//! whether it lacks an optional feature.

use crate::host::sys;
use rustix::{
    io::Errno,
    process::{PidfdFlags, getpid, pidfd_open},
    system::uname,
};
use std::os::fd::OwnedFd;

/// Oldest supported kernel. `nrid` needs pidfd_open(2) of Linux 5.3; `nrictl` and plugins built on
/// the SDK need openat2(2) and pidfd_getfd(2) of Linux 5.6.
const OLDEST: &str = "5.6";

/// A kernel on which `nrid` cannot notice that a container has ended.
#[derive(Debug, thiserror::Error)]
#[error(
    "kernel {release}: pidfd_open(2) failed: {source}; nrid needs Linux {OLDEST} or later, and a \
     seccomp profile that allows this call"
)]
pub struct UnsupportedKernel {
    release: String,
    source: Errno,
}

/// Checks that the kernel has pidfd_open(2), and logs whether it lacks exit codes of pidfds.
///
/// # Errors
/// The kernel is too old.
pub fn check() -> Result<(), UnsupportedKernel> {
    let release = uname().release().to_string_lossy().into_owned();
    let pidfd = usable(pidfd_open(getpid(), PidfdFlags::empty()), &release)?;
    if sys::pidfd_exit_status(&pidfd).is_err() {
        tracing::info!(
            kernel = release,
            "the kernel (before Linux 6.15) does not report exit codes of reaped processes: \
             plugins get the exit code 255 and the reason Unknown if nrid reads the code too late"
        );
    }
    Ok(())
}

fn usable(pidfd: Result<OwnedFd, Errno>, release: &str) -> Result<OwnedFd, UnsupportedKernel> {
    pidfd.map_err(|source| UnsupportedKernel { release: release.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_pidfds_is_refused_in_one_line() {
        check().unwrap();
        let error = usable(Err(Errno::NOSYS), "4.18.0-553.el8").unwrap_err().to_string();
        for part in ["4.18.0-553.el8", "pidfd_open", "not implemented", "Linux 5.6 or later"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(error.lines().count(), 1);
    }
}
