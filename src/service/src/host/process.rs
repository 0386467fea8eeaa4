//! Processes of the host: identity, checks for exit, and waiting for exit.
//!
//! No runtime is called when a container exits, so `nrid` watches the init process through a
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

/// Time to wait for the parent to reap an exited child: engines reap at once, but a busy host
/// delays them.
const REAP_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval of checks for the exit status of an unreaped process.
const REAP_POLL: Duration = Duration::from_millis(5);

/// A process id with the start time, which distinguishes the process from a later one that reuses
/// the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks after boot.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Identity of the running process with this id; `None` if no such process runs.
    pub fn of(pid: i32) -> Option<Self> {
        start_time(pid).map(|start_time| Self { pid, start_time })
    }

    /// Whether the process still runs.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// Start time of a process in clock ticks after boot; `None` for an exited process, zombies
/// included.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = stat(pid)?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

/// Whether a process is known to have exited; `false` if `/proc` cannot be read.
pub fn has_ended(pid: i32) -> bool {
    Pid::from_raw(pid).map(test_kill_process) == Some(Err(Errno::SRCH))
        || stat(pid).is_some_and(|stat| matches!(stat.state, 'Z' | 'X'))
}

fn stat(pid: i32) -> Option<procfs::process::Stat> {
    procfs::process::Process::new(pid).ok()?.stat().ok()
}

/// A pidfd of a process, to wait for its exit.
#[derive(Debug)]
pub struct Process(AsyncFd<OwnedFd>);

impl Process {
    /// Opens the process with this id; `None` if it cannot be opened.
    pub fn open(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
        sys::wait_readable(fd).ok().map(Self)
    }

    /// Wait status of a reaped process; `None` before that, and before Linux 6.15.
    pub fn wait_status(&self) -> Option<i32> {
        sys::pidfd_exit_status(self.0.get_ref()).ok().flatten()
    }

    /// Waits until the parent has reaped the exited process, so that the kernel reports its wait
    /// status. Returns after `REAP_TIMEOUT` at the latest, since some parents never reap, and at
    /// once on kernels that do not report the status.
    pub async fn reaped(&self) {
        let deadline = Instant::now() + REAP_TIMEOUT;
        while matches!(sys::pidfd_exit_status(self.0.get_ref()), Ok(None))
            && Instant::now() < deadline
        {
            sleep(REAP_POLL).await;
        }
    }

    /// Waits until the process has exited.
    pub async fn ended(&self) {
        // `readable` fails only if the async runtime has shut down.
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
    async fn waiting_ends_when_the_process_exits() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        tokio::time::timeout(Duration::from_secs(10), process.ended()).await.unwrap();
        child.wait().unwrap();
        assert!(Process::open(child.id() as i32).is_none());
    }
}
