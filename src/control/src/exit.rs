//! Waits for the exit of a process that need not be a child.

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{io, time::Duration};

/// Whether a process exits in time.
///
/// # Errors
/// No such process exists, or the kernel does not tell.
pub(crate) fn exits_within(process: Pid, limit: Duration) -> io::Result<bool> {
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let exited = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)))?;
    Ok(exited > 0)
}
