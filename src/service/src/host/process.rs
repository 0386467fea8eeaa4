//! Processes of the host: identity, checks for exit, and waiting for exit.
//!
//! No runtime is called when a container exits, so `nrid` watches the container's first process
//! through a pidfd. Start from [`Process`]. `nrid` takes a process as ended only if the kernel
//! shows that: no such process, another start time, or a zombie. A file or descriptor that cannot
//! be opened shows nothing about the process, and is an error.

use crate::host::sys;
use procfs::{FromRead, process::Stat};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Read},
    os::fd::OwnedFd,
    sync::OnceLock,
    time::Duration,
};
use tokio::{io::unix::AsyncFd, time::timeout};

/// Time that `nrid` waits for the parent to reap an exited process. Engines reap at once, unless
/// the host is overloaded.
const REAP_TIMEOUT: Duration = Duration::from_millis(500);

/// A process id with the start time, which distinguishes the process from a later one that reuses
/// the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks after boot.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Returns the identity of the running process with this id; `None` if no such process runs, or
    /// if it cannot be determined.
    pub fn of(pid: i32) -> Option<Self> {
        let start_time = ProcessStat::of(pid).ok()?.filter(|stat| !stat.has_ended)?.start_time;
        Some(Self { pid, start_time })
    }

    /// Whether the process still runs, as far as it is known: `true` if that cannot be determined.
    pub fn is_alive(self) -> bool {
        !self.has_ended().unwrap_or(false)
    }

    /// Whether the process is stopped by a signal, and does nothing until it is continued.
    pub fn is_stopped(self) -> bool {
        let stat = ProcessStat::of(self.pid).ok().flatten();
        stat.is_some_and(|stat| stat.is_stopped && stat.start_time == self.start_time)
    }

    /// Kills the process, also if it is stopped.
    ///
    /// # Errors
    /// The process cannot be opened, or this process may not kill it.
    pub fn kill(self) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 0) else { return Ok(()) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(()),
            pidfd => pidfd?,
        };
        // Compared after the pidfd is open, since the pid may have been reused.
        if self.has_ended()? {
            return Ok(());
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    /// The state of the process cannot be read.
    pub fn has_ended(self) -> io::Result<bool> {
        let stat = ProcessStat::of(self.pid)?;
        Ok(stat.is_none_or(|stat| stat.has_ended || stat.start_time != self.start_time))
    }
}

/// State of a process that exists, zombies included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Start time in clock ticks after boot.
    pub start_time: u64,
    /// Whether the process has exited, and its parent has not reaped it yet.
    pub has_ended: bool,
    /// Whether the process is stopped by a signal.
    pub is_stopped: bool,
}

impl ProcessStat {
    /// Returns the state of the process with this id; `None` if there is none.
    ///
    /// # Errors
    /// The process exists, or may exist, and `/proc` does not show it.
    pub fn of(pid: i32) -> io::Result<Option<Self>> {
        let Some(stat) = read_stat(pid)? else { return Ok(None) };
        // A first thread that has ended is shown as a zombie, too, while other threads run.
        let has_ended = matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1;
        let is_stopped = stat.state == 'T';
        Ok(Some(Self { start_time: stat.starttime, has_ended, is_stopped }))
    }
}

/// Returns the resident memory of a process in bytes; `None` if it is unknown.
pub fn resident_memory(pid: u32) -> Option<u64> {
    let stat = read_stat(i32::try_from(pid).ok()?).ok()??;
    stat.rss.checked_mul(rustix::param::page_size() as u64)
}

/// Returns the name of a process (`comm`) and the pid of its parent; `None` if they are unknown.
pub fn name_and_parent(pid: i32) -> Option<(String, i32)> {
    let stat = read_stat(pid).ok()??;
    Some((stat.comm, stat.ppid))
}

fn read_stat(pid: i32) -> io::Result<Option<Stat>> {
    let Some(id) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Ok(None) };
    match read_at_once(&format!("/proc/{pid}/stat")) {
        Ok(bytes) => Stat::from_read(bytes.as_slice()).map(Some).map_err(io::Error::other),
        // This call needs no descriptor, and no /proc.
        Err(_) if test_kill_process(id) == Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Size of [`read_at_once`]: a `/proc/PID/stat` has at most 52 numbers and a short name.
const STAT_SIZE: usize = 2048;

/// Reads a small file of `/proc`, which the kernel returns in one piece.
fn read_at_once(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; STAT_SIZE];
    let length = fs::File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns the wait status of an exited process that its parent has not reaped yet, and that
/// started at this time.
pub fn zombie_status(pid: i32, start_time: Option<u64>) -> Option<i32> {
    let stat = read_stat(pid).ok()??;
    if stat.state != 'Z' || Some(stat.starttime) != start_time {
        return None;
    }
    // The kernel also shows 0 to a reader without permission. This link needs the same permission.
    let is_permitted = || fs::read_link(format!("/proc/{pid}/ns/user")).is_ok();
    stat.exit_code.filter(|status| *status != 0 || is_permitted())
}

/// A pidfd of a process, to wait for its exit.
#[derive(Debug)]
pub struct Process {
    pidfd: AsyncFd<OwnedFd>,
    pid: i32,
    start_time: Option<u64>,
    /// Wait status that was read after the exit, before the parent reaped the process.
    zombie_status: OnceLock<i32>,
}

impl Process {
    /// Opens the process with this id, which may be a zombie; `None` if there is no such process.
    ///
    /// # Errors
    /// The process cannot be opened, for example because this process has too many open files.
    pub fn open(pid: i32) -> io::Result<Option<Self>> {
        let Some(id) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Ok(None) };
        // Not PIDFD_NONBLOCK, which needs Linux 5.10: the pidfd is polled and never read.
        match pidfd_open(id, PidfdFlags::empty()) {
            Ok(fd) => {
                let start_time = read_stat(pid).ok().flatten().map(|stat| stat.starttime);
                let zombie_status = OnceLock::new();
                let pidfd = sys::wait_readable(fd)?;
                Ok(Some(Self { pidfd, pid, start_time, zombie_status }))
            }
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the start time in clock ticks after boot, read when the process was opened; `None`
    /// if it could not be read.
    pub fn start_time(&self) -> Option<u64> {
        self.start_time
    }

    /// Returns the wait status of an exited process; `None` if it is not known. Linux 6.15 and
    /// later report it after the process was reaped. On other kernels it is known if it could be
    /// read before that.
    pub fn wait_status(&self) -> Option<i32> {
        let reported = sys::pidfd_exit_status(self.pidfd.get_ref()).ok().flatten();
        reported.or_else(|| self.zombie_status.get().copied())
    }

    /// Waits until the parent has reaped the exited process, so that the kernel reports its wait
    /// status. Returns after `REAP_TIMEOUT` at the latest, since some parents never reap, and at
    /// once on kernels that do not report the status.
    pub async fn wait_until_reaped(&self) {
        let is_reported = || !matches!(sys::pidfd_exit_status(self.pidfd.get_ref()), Ok(None));
        // Kernels that report the status also report the reaping, as a hangup (Linux 6.9).
        let reaped = async {
            while !is_reported() {
                let Ok(mut ready) = self.pidfd.readable().await else { return };
                if ready.ready().is_read_closed() {
                    return;
                }
                ready.clear_ready();
                // Checked again, for a reaping before the flag was cleared.
            }
        };
        let _ = timeout(REAP_TIMEOUT, reaped).await;
    }

    /// Waits until the process has exited. Many parents reap it at the same moment: its wait status
    /// is read at once, for kernels that do not report it later.
    pub async fn wait_for_exit(&self) {
        // `readable` fails only if the async runtime has shut down.
        let _ = self.pidfd.readable().await;
        if let Some(status) = zombie_status(self.pid, self.start_time) {
            let _ = self.zombie_status.set(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_a_start_time_and_a_missing_one_has_no_state() {
        let own = ProcessStat::of(std::process::id() as i32).unwrap().unwrap();
        assert!(own.start_time > 0 && !own.has_ended);
        assert_eq!(ProcessStat::of(i32::MAX).unwrap(), None);
        assert_eq!(ProcessStat::of(0).unwrap(), None);
    }

    #[tokio::test]
    async fn waiting_ends_when_the_process_exits() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let identity = ProcessIdentity::of(pid).unwrap();
        let process = Process::open(pid).unwrap().unwrap();
        assert!(!identity.has_ended().unwrap());
        child.kill().unwrap();
        tokio::time::timeout(Duration::from_secs(10), process.wait_for_exit()).await.unwrap();
        let zombie = ProcessStat::of(pid).unwrap().unwrap();
        assert!(zombie.has_ended && zombie.start_time == identity.start_time);
        assert!(identity.has_ended().unwrap());
        child.wait().unwrap();
        assert!(Process::open(pid).unwrap().is_none());
        assert!(identity.has_ended().unwrap() && ProcessIdentity::of(pid).is_none());
    }

    #[tokio::test]
    async fn a_stopped_process_is_killed_and_another_one_with_its_pid_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id() as i32).unwrap();
        assert!(!identity.is_stopped());
        rustix::process::kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        while !identity.is_stopped() {
            tokio::task::yield_now().await;
        }
        let other = ProcessIdentity { start_time: identity.start_time + 1, ..identity };
        assert!(!other.is_stopped());
        other.kill().unwrap();
        assert!(identity.is_alive());
        identity.kill().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
        identity.kill().unwrap();
    }

    #[tokio::test]
    async fn waiting_for_the_parent_ends_when_it_reaps_the_process() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::open(child.id() as i32).unwrap().unwrap();
        process.wait_for_exit().await;
        let reports_status = sys::pidfd_exit_status(process.pidfd.get_ref()).is_ok();
        let limit = REAP_TIMEOUT / 10;
        let waited = timeout(limit, process.wait_until_reaped()).await;
        // Kernels that do not report the status have nothing to wait for.
        assert_eq!(waited.is_err(), reports_status, "expected a wait for the zombie");
        let reaped = async {
            tokio::task::yield_now().await;
            child.wait().unwrap();
        };
        let both = async { tokio::join!(process.wait_until_reaped(), reaped) };
        assert!(timeout(limit, both).await.is_ok());
    }

    #[tokio::test]
    async fn the_wait_status_of_a_process_is_known_before_its_parent_reaps_it() {
        for (script, status) in [("exit 3", 3 << 8), ("kill -9 $$", 9), ("exit 0", 0)] {
            let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            let process = Process::open(child.id() as i32).unwrap().unwrap();
            process.wait_for_exit().await;
            // As on kernels before Linux 6.15, which do not report the status after the reaping.
            assert_eq!(process.zombie_status.get(), Some(&status), "{script}");
            assert_eq!(process.wait_status(), Some(status), "{script}");
            child.wait().unwrap();
            assert_eq!(process.wait_status(), Some(status), "{script}");
        }
    }
}
