//! Whether the kernel killed in a container because of its memory limit.
//!
//! The control group counts such kills, but may be gone as soon as the last process is (systemd removes a scope then). So it is watched from the
//! creation on: by inotify in version 2, by an eventfd in version 1.

use crate::{cgroups, record::Record};
use nri_cgroup::{Controller, Place};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::inotify,
};
use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

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
pub struct OomWatch(Arc<AtomicBool>);

impl OomWatch {
    /// Watches until the control group is gone.
    pub fn start(record: &Record) -> Self {
        let watch = Self::default();
        let Some(counter) = cgroups::place(record).as_ref().and_then(Counter::of) else { return watch };
        let seen = watch.0.clone();
        let id = record.key.id.clone();
        tokio::spawn(async move {
            if let Err(error) = counter.watch(&seen).await {
                tracing::debug!(container = id, %error, "kills for memory are not watched");
            }
        });
        watch
    }

    /// Whether a kill was seen, or the control group counts one now.
    pub fn killed(&self, record: &Record) -> bool {
        self.0.load(Ordering::SeqCst) || killed(record)
    }
}

/// Whether the control group, if it is still there, counts a kill.
pub fn killed(record: &Record) -> bool {
    cgroups::place(record).as_ref().and_then(Counter::of).is_some_and(|counter| counter.kills() > 0)
}

impl Counter {
    fn of(place: &Place) -> Option<Self> {
        let v1 = place.v1(Controller::Memory).map(|dir| Self::V1(dir.join("memory.oom_control")));
        v1.or_else(|| place.v2(Controller::Memory).map(|dir| Self::V2(dir.join("memory.events"))))
    }

    fn file(&self) -> &Path {
        match self {
            Self::V1(file) | Self::V2(file) => file,
        }
    }

    fn kills(&self) -> u64 {
        count(&fs::read_to_string(self.file()).unwrap_or_default())
    }

    async fn watch(&self, seen: &AtomicBool) -> io::Result<()> {
        let notifier = crate::sys::wait_readable(match self {
            Self::V1(file) => notify_v1(file)?,
            Self::V2(file) => notify_v2(file)?,
        })?;
        loop {
            let mut ready = notifier.readable().await?;
            let mut drain = [0; 4096];
            while rustix::io::read(notifier.get_ref(), &mut drain[..]).is_ok_and(|n| n == drain.len()) {}
            ready.clear_ready();
            // The end of the group is told, too.
            if !self.file().exists() {
                return Ok(());
            }
            if self.kills() > 0 {
                seen.store(true, Ordering::SeqCst);
                return Ok(());
            }
            if matches!(self, Self::V1(_)) {
                // The word comes before the kill.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                seen.fetch_or(self.kills() > 0, Ordering::SeqCst);
            }
        }
    }
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
