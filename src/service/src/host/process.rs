//! Processes of the host: their identity, whether they have ended, and waiting for that.
//!
//! A container's own end makes no call of the runtime, so its first process is watched through a
//! pidfd: [`Process`].

use crate::host::sys;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open, test_kill_process},
};
use serde::{Deserialize, Serialize};
use std::{os::fd::OwnedFd, time::Duration};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, sleep},
};

/// Time that a parent has to reap a child that has ended: engines do so at once, but a busy host
/// delays them.
const REAP_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval at which the exit status of an unreaped process is looked up.
const REAP_POLL: Duration = Duration::from_millis(5);

/// A process id with the start time, which tells the process from a later one of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks after boot.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// The running process of this id, if there is one.
    pub fn of(pid: i32) -> Option<Self> {
        start_time(pid).map(|start_time| Self { pid, start_time })
    }

    /// Whether the process has not ended.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// Start time of a process in clock ticks after boot; `None` for a process that has ended, zombies
/// included.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = stat(pid)?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

/// Whether a process is known to have ended; a process that cannot be looked up is not.
pub fn has_ended(pid: i32) -> bool {
    Pid::from_raw(pid).map(test_kill_process) == Some(Err(Errno::SRCH))
        || stat(pid).is_some_and(|stat| matches!(stat.state, 'Z' | 'X'))
}

fn stat(pid: i32) -> Option<procfs::process::Stat> {
    procfs::process::Process::new(pid).ok()?.stat().ok()
}

/// A process whose end can be awaited.
#[derive(Debug)]
pub struct Process(AsyncFd<OwnedFd>);

impl Process {
    /// Opens the process of this id; `None` if there is none.
    pub fn open(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
        sys::wait_readable(fd).ok().map(Self)
    }

    /// `wait` status of a process that its parent has reaped; only Linux 6.15 and later have it.
    pub fn wait_status(&self) -> Option<i32> {
        sys::pidfd_exit_status(self.0.get_ref()).ok().flatten()
    }

    /// Waits until the parent has reaped the ended process, so that its status is known. Returns
    /// after [`REAP_TIMEOUT`] in any case, since some parents never reap, and at once on kernels
    /// without the status.
    pub async fn reaped(&self) {
        let deadline = Instant::now() + REAP_TIMEOUT;
        while matches!(sys::pidfd_exit_status(self.0.get_ref()), Ok(None))
            && Instant::now() < deadline
        {
            sleep(REAP_POLL).await;
        }
    }

    /// Waits until the process has ended.
    pub async fn ended(&self) {
        // An error would mean that the async runtime has shut down.
        let _ = self.0.readable().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_start_time_is_known_and_a_missing_process_has_none() {
        assert!(start_time(std::process::id() as i32).is_some());
        assert_eq!(start_time(i32::MAX), None);
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        tokio::time::timeout(Duration::from_secs(10), process.ended()).await.unwrap();
        child.wait().unwrap();
        assert!(Process::open(child.id() as i32).is_none());
    }
}
