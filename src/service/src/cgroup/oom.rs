//! Detection of OOM kills: kills of a container's processes because of its memory limit.
//!
//! The control group counts such kills, but may be removed with its last process (systemd then
//! removes the scope). So `nrid` watches it from the creation on: by inotify in version 2, by an
//! eventfd in version 1.

use crate::host::sys;
use nri_cgroup::{CgroupDirs, Controller};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::inotify,
};
use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::io::unix::AsyncFd;

/// Maximum time between reaching the limit and the removal of the group for which a kill is
/// assumed: the kernel kills within milliseconds, and engines remove the group soon after.
const KILL_WINDOW: Duration = Duration::from_secs(2);

/// Time that the event of a group's removal may take to arrive.
const REMOVAL_EVENT_TIMEOUT: Duration = Duration::from_millis(300);

/// Name of the counter in the files of both versions.
const COUNTER: &str = "oom_kill";

/// The file that counts kills. Its version decides how changes are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Counter {
    V1(PathBuf),
    V2(PathBuf),
}

/// A watch for OOM kills. Without a control group that counts them it reports none.
#[derive(Debug, Default)]
pub struct OomWatch(Option<Arc<Watch>>);

#[derive(Debug)]
struct Watch {
    counter: Counter,
    notifier: AsyncFd<OwnedFd>,
    seen: Mutex<Seen>,
}

/// Results of the events so far.
#[derive(Debug, Default)]
struct Seen {
    /// Time of the last event that the limit was reached.
    limit_reached: Option<Instant>,
    /// Counts of the groups above at that time, the nearest first: version 2 only, where a group
    /// counts for those below it.
    above: Vec<(PathBuf, u64)>,
    /// Number of events after the removal of the group: version 1 only, where the removal is an
    /// event as well.
    events_after_removal: u64,
    killed: bool,
}

impl OomWatch {
    /// Watches the control groups of a container until they are removed; `id` is for the log.
    pub fn start(id: &str, dirs: Option<&CgroupDirs>) -> Self {
        let Some(counter) = dirs.and_then(Counter::of) else {
            return Self(None);
        };
        let id = id.to_owned();
        let watch = match Watch::of(counter) {
            Ok(watch) => Arc::new(watch),
            Err(error) => {
                tracing::debug!(container = id, %error, "cannot watch for OOM kills");
                return Self(None);
            }
        };
        let watching = watch.clone();
        tokio::spawn(async move {
            if let Err(error) = watching.watch().await {
                tracing::debug!(container = id, %error, "watch for OOM kills failed");
            }
        });
        Self(Some(watch))
    }

    /// Whether a kill was seen, or the control group counts one now. `status`: wait status of the
    /// first process, if that is known.
    pub async fn killed(&self, dirs: Option<&CgroupDirs>, status: Option<i32>) -> bool {
        if let Some(watch) = &self.0 {
            // The last events may not have been read yet.
            if watch.check() != Some(true) && status.is_none_or(is_of_a_kill) {
                watch.wait_for_removal_event().await;
            }
            if watch.check() == Some(true) {
                return true;
            }
        }
        killed(dirs)
    }
}

impl Watch {
    fn of(counter: Counter) -> io::Result<Self> {
        let notifier = sys::wait_readable(match &counter {
            Counter::V1(file) => notify_v1(file)?,
            Counter::V2(file) => notify_v2(file)?,
        })?;
        let seen = Mutex::new(Seen { above: counter.above(), ..Seen::default() });
        Ok(Self { counter, notifier, seen })
    }

    /// Waits for a second event after the removal of the group: one alone may be a kill or the
    /// removal.
    async fn wait_for_removal_event(&self) {
        let deadline = Instant::now() + REMOVAL_EVENT_TIMEOUT;
        while self.check() != Some(true)
            && self.seen().events_after_removal == 1
            && Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn watch(&self) -> io::Result<()> {
        loop {
            let mut ready = self.notifier.readable().await?;
            if self.check().is_some() {
                return Ok(());
            }
            ready.clear_ready();
            if matches!(self.counter, Counter::V1(_)) {
                // The event precedes the kill.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Checked again, for events that arrived before the flag was cleared.
            if self.check().is_some() {
                return Ok(());
            }
        }
    }

    /// Reads the events and the counter; returns whether there was a kill, if that is certain.
    fn check(&self) -> Option<bool> {
        // Locked, because events are read once: they are evaluated before the next check.
        let mut seen = self.seen();
        let events = self.read_events();
        // The groups above are read first: a kill between the reads is then in the group's own
        // count.
        let above = self.counter.above();
        let content = fs::read_to_string(self.counter.file());
        let is_reached = if content.is_err() && matches!(self.counter, Counter::V1(_)) {
            seen.events_after_removal += events;
            events > 0 && seen.events_after_removal > 1
        } else {
            events > 0
        };
        if is_reached {
            seen.limit_reached = Some(Instant::now());
        }
        match &content {
            Ok(content) => {
                seen.killed |= count(content) > 0;
                seen.above = above;
            }
            // The group was removed with the process, by a runtime that waits for it or by systemd.
            // In version 2 there is an event every 10 ms at most, so the kill may have none. The
            // limit has one, and the groups above count the kill.
            Err(_) => {
                let is_recent = seen.limit_reached.is_some_and(|at| at.elapsed() < KILL_WINDOW);
                let above =
                    seen.above.iter().find_map(|(file, before)| Some(kills(file).ok()? > *before));
                seen.killed |= is_recent && above.unwrap_or(true);
            }
        }
        if seen.killed { Some(true) } else { content.is_err().then_some(false) }
    }

    /// Reads the events since the last call, and returns their number. In version 1 the removal of
    /// the group is one of them.
    fn read_events(&self) -> u64 {
        let fd = self.notifier.get_ref();
        match &self.counter {
            Counter::V1(_) => {
                let mut count = [0; 8];
                let read = rustix::io::read(fd, &mut count[..]).is_ok_and(|n| n == count.len());
                if read { u64::from_ne_bytes(count) } else { 0 }
            }
            Counter::V2(_) => {
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut events = inotify::Reader::new(fd, &mut buffer);
                let mut modified = 0;
                while let Ok(event) = events.next() {
                    modified += u64::from(event.events().contains(inotify::ReadFlags::MODIFY));
                }
                modified
            }
        }
    }
}

/// Whether a wait status is that of a killed process, or of a shell that ran a killed process.
fn is_of_a_kill(status: i32) -> bool {
    const KILL: i32 = libc::SIGKILL;
    status & 0x7f == KILL || status >> 8 == 128 + KILL
}

/// Whether the control group still exists and counts a kill.
pub fn killed(dirs: Option<&CgroupDirs>) -> bool {
    dirs.and_then(Counter::of).is_some_and(|counter| counter.kills() > 0)
}

impl Counter {
    fn of(dirs: &CgroupDirs) -> Option<Self> {
        let v1 = dirs.v1(Controller::Memory).map(|dir| Self::V1(dir.join("memory.oom_control")));
        v1.or_else(|| dirs.v2(Controller::Memory).map(|dir| Self::V2(dir.join("memory.events"))))
    }

    fn file(&self) -> &Path {
        match self {
            Self::V1(file) | Self::V2(file) => file,
        }
    }

    fn kills(&self) -> u64 {
        kills(self.file()).unwrap_or(0)
    }

    /// Counts of the groups above, where they include the groups below them.
    fn above(&self) -> Vec<(PathBuf, u64)> {
        let (Self::V2(file), Some(name)) = (self, self.file().file_name()) else {
            return Vec::new();
        };
        let groups = file.ancestors().skip(2).map(|dir| dir.join(name));
        groups
            .map_while(|file| Some((kills(&file).ok()?, file)))
            .map(|(count, file)| (file, count))
            .collect()
    }
}

/// Returns the count in a file.
fn kills(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file).map(|content| count(&content))
}

fn notify_v1(file: &Path) -> io::Result<OwnedFd> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let control = fs::File::open(file)?;
    let text = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    fs::write(file.with_file_name("cgroup.event_control"), text)?;
    Ok(event)
}

fn notify_v2(file: &Path) -> io::Result<OwnedFd> {
    let notifier = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let events = inotify::WatchFlags::MODIFY | inotify::WatchFlags::DELETE_SELF;
    inotify::add_watch(&notifier, file, events)?;
    Ok(notifier)
}

fn count(content: &str) -> u64 {
    let line = content.lines().find_map(|line| line.strip_prefix(COUNTER)?.strip_prefix(' '));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_kills_are_counted_in_both_cgroup_versions() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(count("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(count("oom_kill_disable 1\n"), 0);
    }
}
