//! Whether the kernel killed in a container because of its memory limit.
//!
//! The control group counts such kills, but may be gone as soon as the last process is (systemd
//! removes a scope then). So it is watched from the creation on: by inotify in version 2, by an
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

/// How long before the end of a group its limit must have been met for a kill to be likely.
const RECENT: Duration = Duration::from_secs(2);

/// How long the word of a group's end may come after the group is gone.
const LINGER: Duration = Duration::from_millis(300);

/// The counter in both files.
const COUNTER: &str = "oom_kill";

/// The file that counts kills, and how its changes are told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Counter {
    V1(PathBuf),
    V2(PathBuf),
}

/// Says whether there was a kill.
#[derive(Debug, Default)]
pub struct OomWatch(Option<Arc<Watch>>);

#[derive(Debug)]
struct Watch {
    counter: Counter,
    notifier: AsyncFd<OwnedFd>,
    last: Mutex<Last>,
}

/// What is known so far.
#[derive(Debug, Default)]
struct Last {
    /// When the kernel told last that the limit was met.
    told: Option<Instant>,
    /// What the groups above counted then: version 2 only, where a group counts for those below it.
    /// The nearest first.
    above: Vec<(PathBuf, u64)>,
    /// How often the kernel has told something of a group that was gone: version 1 only, where its
    /// end is told, too, some time after it.
    after: u64,
    killed: bool,
}

impl OomWatch {
    /// Watches the control groups of a container until they are removed; `id` is for the log.
    pub fn start(id: &str, place: Option<&CgroupDirs>) -> Self {
        let Some(counter) = place.and_then(Counter::of) else {
            return Self(None);
        };
        let id = id.to_owned();
        let watch = match Watch::of(counter) {
            Ok(watch) => Arc::new(watch),
            Err(error) => {
                tracing::debug!(container = id, %error, "kills for memory are not watched");
                return Self(None);
            }
        };
        let watching = watch.clone();
        tokio::spawn(async move {
            if let Err(error) = watching.watch().await {
                tracing::debug!(container = id, %error, "kills for memory are not watched any more");
            }
        });
        Self(Some(watch))
    }

    /// Whether a kill was seen, or the control group counts one now. `status`: how the first
    /// process ended, if that is known.
    pub async fn killed(&self, place: Option<&CgroupDirs>, status: Option<i32>) -> bool {
        if let Some(watch) = &self.0 {
            // What was told last may not have been read yet.
            if watch.look() != Some(true) && status.is_none_or(is_of_a_kill) {
                watch.linger().await;
            }
            if watch.look() == Some(true) {
                return true;
            }
        }
        killed(place)
    }
}

impl Watch {
    fn of(counter: Counter) -> io::Result<Self> {
        let notifier = sys::wait_readable(match &counter {
            Counter::V1(file) => notify_v1(file)?,
            Counter::V2(file) => notify_v2(file)?,
        })?;
        let last = Mutex::new(Last { above: counter.above(), ..Last::default() });
        Ok(Self { counter, notifier, last })
    }

    /// Waits for what tells a kill from the end of the group, where only one of the two has been
    /// told.
    async fn linger(&self) {
        let deadline = Instant::now() + LINGER;
        while self.look() != Some(true) && self.last().after == 1 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn watch(&self) -> io::Result<()> {
        loop {
            let mut ready = self.notifier.readable().await?;
            if self.look().is_some() {
                return Ok(());
            }
            ready.clear_ready();
            if matches!(self.counter, Counter::V1(_)) {
                // The word comes before the kill.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Also for what came before the flag was cleared.
            if self.look().is_some() {
                return Ok(());
            }
        }
    }

    /// Reads what was told, and the counter; whether there was a kill, if that is certain.
    fn look(&self) -> Option<bool> {
        // What was told is read once: whoever reads it draws the conclusion before another one
        // looks.
        let mut last = self.last();
        let told = self.told();
        // In this order: a kill that comes in between is in the group's own count.
        let above = self.counter.above();
        let content = fs::read_to_string(self.counter.file());
        let met = if content.is_err() && matches!(self.counter, Counter::V1(_)) {
            last.after += told;
            told > 0 && last.after > 1
        } else {
            told > 0
        };
        if met {
            last.told = Some(Instant::now());
        }
        match &content {
            Ok(content) => {
                last.killed |= count(content) > 0;
                last.above = above;
            }
            // The group was removed with the process, by a runtime that waits for it or by systemd.
            // In version 2 the kernel tells at most every 10 ms, so the kill itself is not told
            // then; that the limit was met is, and the groups above count it.
            Err(_) => {
                let met = last.told.is_some_and(|told| told.elapsed() < RECENT);
                let above =
                    last.above.iter().find_map(|(file, before)| Some(kills(file).ok()? > *before));
                last.killed |= met && above.unwrap_or(true);
            }
        }
        if last.killed { Some(true) } else { content.is_err().then_some(false) }
    }

    /// Takes what the kernel has told since the last time: how often. The end of the group counts
    /// in version 1.
    fn told(&self) -> u64 {
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
                let mut told = 0;
                while let Ok(event) = events.next() {
                    told += u64::from(event.events().contains(inotify::ReadFlags::MODIFY));
                }
                told
            }
        }
    }
}

/// Whether a process ended as one that was killed; a shell passes that on as an exit code.
fn is_of_a_kill(status: i32) -> bool {
    const KILL: i32 = libc::SIGKILL;
    status & 0x7f == KILL || status >> 8 == 128 + KILL
}

/// Whether the control group, if it is still there, counts a kill.
pub fn killed(place: Option<&CgroupDirs>) -> bool {
    place.and_then(Counter::of).is_some_and(|counter| counter.kills() > 0)
}

impl Counter {
    fn of(place: &CgroupDirs) -> Option<Self> {
        let v1 = place.v1(Controller::Memory).map(|dir| Self::V1(dir.join("memory.oom_control")));
        v1.or_else(|| place.v2(Controller::Memory).map(|dir| Self::V2(dir.join("memory.events"))))
    }

    fn file(&self) -> &Path {
        match self {
            Self::V1(file) | Self::V2(file) => file,
        }
    }

    fn kills(&self) -> u64 {
        kills(self.file()).unwrap_or(0)
    }

    /// What the groups above count, where they count what happens below them.
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

/// What a file counts.
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
    fn counters_of_both_versions() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(count("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(count("oom_kill_disable 1\n"), 0);
    }
}
