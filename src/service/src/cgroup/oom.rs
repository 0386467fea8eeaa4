//! Detection of OOM kills: kills of a container's processes because of its memory limit.
//!
//! The control group counts these kills, but may be removed as soon as its last process has exited
//! (systemd then removes the scope). So `nrid` watches the control group from the creation on: by
//! inotify in cgroup v2, by an eventfd in cgroup v1.

use crate::{
    cgroup::oom_events::{Events, OomMonitor},
    host::problems::Problem,
};
use nri_cgroup::{CgroupDirs, Controller};
use nri_locate::{Environment, UserDirs};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

/// An OOM kill is assumed if the group is removed within this time after the last event that
/// reported the limit as reached. The kernel kills within milliseconds of the event, and engines
/// remove the group soon after.
const KILL_WINDOW: Duration = Duration::from_secs(2);

/// Time limit for the arrival of the event that reports the removal of a group.
const REMOVAL_EVENT_TIMEOUT: Duration = Duration::from_millis(300);

/// Whether this is the `nrid` of a user. On cgroup v1, a container of a rootless engine is in the
/// cgroup of the user's session, whose OOM kills are not its own.
static IS_OF_USER: LazyLock<bool> =
    LazyLock::new(|| UserDirs::of_this_process(&Environment::of_this_process()).is_some());

/// Name of the counter of OOM kills, in the files of both cgroup versions.
const COUNTER: &str = "oom_kill";

/// The file that counts OOM kills. The cgroup version decides how the kernel reports changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Counter {
    V1(PathBuf),
    V2(PathBuf),
}

/// A container's watch for OOM kills. If no watch could be started, the counter is read when the
/// container exits.
#[derive(Debug, Default)]
pub struct OomWatch {
    watch: Option<Arc<Watch>>,
    _problem: Option<Problem>,
}

/// The watch of a control group.
#[derive(Debug)]
struct Watch {
    counter: Counter,
    events: Events,
    seen: Mutex<Seen>,
}

/// Results of the events so far.
#[derive(Debug, Default)]
struct Seen {
    /// Time of the last event that reported the limit as reached.
    limit_reached: Option<Instant>,
    /// Counts of the ancestor groups at the last check, the nearest ancestor first. Cgroup v2 only,
    /// where the count of a group includes its descendants.
    ancestors: Vec<(PathBuf, u64)>,
    /// Number of events after the removal of the group. Cgroup v1 only, where the removal itself
    /// also is an event.
    events_after_removal: u64,
    killed: bool,
}

impl OomWatch {
    /// Watches the control groups of a container until they are removed; `id` is for the log.
    pub fn start(monitor: &OomMonitor, id: &str, dirs: Option<&CgroupDirs>) -> Self {
        let Some(counter) = dirs.and_then(Counter::of) else { return Self::default() };
        match Watch::start(monitor, counter) {
            Ok(watch) => Self { watch: Some(watch), _problem: None },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::debug!(container = id, %error, "cannot watch for OOM kills");
                Self::default()
            }
            Err(error) => Self { watch: None, _problem: Some(monitor.report(&error)) },
        }
    }

    /// Whether an OOM kill was detected, or the control group counts one now. `status`: wait status
    /// of the first process, if known.
    pub async fn killed(&self, dirs: Option<&CgroupDirs>, status: Option<i32>) -> bool {
        if let Some(watch) = &self.watch {
            // The last events may not have been read yet.
            watch.events.read();
            if watch.check() != Some(true) && status.is_none_or(is_kill_status) {
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
    /// Starts to watch a control group.
    fn start(monitor: &OomMonitor, counter: Counter) -> io::Result<Arc<Self>> {
        let events = match &counter {
            Counter::V1(file) => monitor.v1(file)?,
            Counter::V2(file) => monitor.v2(file)?,
        };
        let seen = Mutex::new(Seen { ancestors: counter.ancestors(), ..Seen::default() });
        let watch = Arc::new(Self { counter, events, seen });
        if matches!(watch.events, Events::V1 { .. }) {
            tokio::spawn(watch.clone().follow_v1());
        }
        let weak = Arc::downgrade(&watch);
        watch.events.on_event(move || {
            if let Some(watch) = weak.upgrade() {
                watch.check();
            }
        });
        Ok(watch)
    }

    /// Checks at each event, until there was a kill or the group is removed.
    async fn follow_v1(self: Arc<Self>) {
        let Events::V1 { eventfd, .. } = &self.events else { return };
        loop {
            let Ok(mut ready) = eventfd.readable().await else { return };
            if self.check().is_some() {
                return;
            }
            ready.clear_ready();
            // The kernel sends the event before it kills: wait for the kill to be counted.
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Checked again, for events that arrived before the flag was cleared.
            if self.check().is_some() {
                return;
            }
        }
    }

    /// Waits for a second event after the removal of the group: a single event may report a kill or
    /// the removal.
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
        self.seen.lock()
    }

    /// Reads the events and the counter. Returns whether there was a kill; `None` while the group
    /// exists and has counted no kill.
    fn check(&self) -> Option<bool> {
        // Locked until the end: an event can be read only once, so another check must not run
        // before this one has evaluated it.
        let mut seen = self.seen();
        let events = self.events.take();
        // The ancestors are read first, so that a kill between the two reads is in the group's own
        // count, and not lost.
        let ancestors = self.counter.ancestors();
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
                seen.ancestors = ancestors;
            }
            // A runtime or systemd removed the group right after the process exited. Cgroup v2
            // sends at most one event per 10 ms, so there may be no event for the kill itself.
            // But there was an event when the limit was reached, and the ancestors count the kill.
            Err(_) => {
                let is_recent = seen.limit_reached.is_some_and(|at| at.elapsed() < KILL_WINDOW);
                let is_counted = seen
                    .ancestors
                    .iter()
                    .find_map(|(file, before)| Some(kills(file).ok()? > *before));
                seen.killed |= is_recent && is_counted.unwrap_or(true);
            }
        }
        if seen.killed { Some(true) } else { content.is_err().then_some(false) }
    }
}

/// Whether a wait status reports a process that was killed by SIGKILL, or a shell that exited with
/// 137 because its child was.
fn is_kill_status(status: i32) -> bool {
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
        if v1.is_some() && *IS_OF_USER {
            return None;
        }
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

    /// Returns the counts of the ancestor groups; none in cgroup v1, where an ancestor does not
    /// count the kills of its descendants.
    fn ancestors(&self) -> Vec<(PathBuf, u64)> {
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

/// Reads the count of OOM kills from a file.
fn kills(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file).map(|content| count(&content))
}

/// Parses the count of OOM kills.
fn count(content: &str) -> u64 {
    let line = content.lines().find_map(|line| line.strip_prefix(COUNTER)?.strip_prefix(' '));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{descriptors::Descriptors, problems::Problems};

    #[tokio::test]
    async fn one_inotify_instance_serves_all_containers() {
        let dir = tempfile::tempdir().unwrap();
        let descriptors = Arc::new(Descriptors::of_this_process());
        let monitor = OomMonitor::new(descriptors, Problems::default());
        // More than the 128 inotify instances that a user may have by default.
        let files: Vec<_> = (0..200)
            .map(|n| {
                let group = dir.path().join(n.to_string());
                fs::create_dir(&group).unwrap();
                let file = group.join("memory.events");
                fs::write(&file, "max 0\noom_kill 0\n").unwrap();
                file
            })
            .collect();
        let watch = |file: &PathBuf| Watch::start(&monitor, Counter::V2(file.clone())).unwrap();
        let watches: Vec<_> = files.iter().map(watch).collect();
        // Two containers share group 7: the end of one watch does not end the other one. Group 7
        // counts a kill, group 8 does not change, and group 9 is removed without a kill.
        drop(watch(&files[7]));
        fs::write(&files[7], "max 1\noom_kill 1\n").unwrap();
        fs::remove_dir_all(files[9].parent().unwrap()).unwrap();
        watches[8].events.read();
        // The kill was seen when the events were read for another watch.
        fs::remove_dir_all(files[7].parent().unwrap()).unwrap();
        assert_eq!(watches[7].check(), Some(true));
        assert_eq!(watches[8].check(), None);
        assert_eq!(watches[9].check(), Some(false));
    }

    #[test]
    fn oom_kills_are_counted_in_both_cgroup_versions() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(count("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n"), 2);
        assert_eq!(count("oom_kill_disable 1\n"), 0);
    }
}
