//! The runtimes that `nrid` follows: wrappers that have become the runtime and report nothing. If
//! `nrid` ends meanwhile, the next one follows them by this file.
//!
//! The file has lines of a fixed length, one for each followed process. A line is written in place
//! with one system call when a verb begins, and again when its outcome is in the record: a record
//! written twice more for each container would take far longer. An `nrid` that does not know the
//! file leaves it as it is; lines without a known container are ignored.

use crate::{
    host::process::ProcessIdentity,
    state::{container::Container, record::Record},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Name of the file in the state directory.
const FILE: &str = "followed";

/// Length of a line. The longest entry has 143 bytes.
const LINE: usize = 160;

/// A verb whose runtime is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowedVerb {
    /// `start`
    Start,
    /// `delete`
    Delete,
}

/// A followed process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedRuntime {
    /// The verb.
    pub verb: FollowedVerb,
    /// The process: the former wrapper.
    pub process: ProcessIdentity,
    /// Name of the container as in `ContainerKey::hook_name`: of this creation of its id.
    container: String,
}

impl FollowedRuntime {
    /// Describes a process that runs a verb for this container.
    pub fn new(verb: FollowedVerb, process: ProcessIdentity, record: &Record) -> Self {
        Self { verb, process, container: record.key.hook_name(record.incarnation) }
    }

    /// Name of the container, as the registry finds it.
    pub fn container(&self) -> &str {
        &self.container
    }
}

/// An entry of the file. Not removed when dropped: an `nrid` that ends leaves it to the next one.
#[derive(Debug)]
#[must_use]
pub struct Entry {
    line: usize,
}

/// The followed processes, in memory and in the file.
#[derive(Debug, Default)]
pub struct FollowedRuntimes {
    /// `None` if the file cannot be opened.
    file: Option<File>,
    /// What each line has; `None` for a free one.
    lines: Mutex<Vec<Option<FollowedRuntime>>>,
}

impl FollowedRuntimes {
    /// Opens the file, and reads the entries of the previous `nrid`.
    pub fn open(state_dir: &Path) -> Self {
        let path = state_dir.join(FILE);
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(&path)
        };
        let read = |file: &File| -> io::Result<Vec<u8>> {
            let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        match open().and_then(|file| Ok((read(&file)?, file))) {
            Ok((bytes, file)) => {
                let lines = bytes.chunks(LINE).map(|line| serde_json::from_slice(line).ok());
                Self { file: Some(file), lines: Mutex::new(lines.collect()) }
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "followed runtimes not recorded");
                Self::default()
            }
        }
    }

    /// Returns the entries.
    pub fn all(&self) -> Vec<(Entry, FollowedRuntime)> {
        let lines = self.lines();
        let used = lines.iter().enumerate();
        used.filter_map(|(line, used)| Some((Entry { line }, used.clone()?))).collect()
    }

    /// Whether a runtime is followed that runs a verb for this container.
    pub fn has(&self, container: &Container) -> bool {
        let record = container.record();
        let name = record.key.hook_name(record.incarnation);
        self.lines().iter().flatten().any(|followed| followed.container == name)
    }

    /// Adds an entry. Without it, the next `nrid` finds out what happened as it does for verbs that
    /// no one reported; so a failure is no reason not to follow.
    pub fn add(&self, followed: FollowedRuntime) -> Entry {
        let mut lines = self.lines();
        let free = lines.iter().position(Option::is_none);
        let line = free.unwrap_or(lines.len());
        let mut bytes = serde_json::to_vec(&followed).unwrap_or_default();
        match lines.get_mut(line) {
            Some(free) => *free = Some(followed),
            None => lines.push(Some(followed)),
        }
        // Written under the lock, as the lines of other threads are not free before.
        self.write(line, &mut bytes);
        Entry { line }
    }

    /// Removes an entry, whose outcome is in the record.
    pub fn remove(&self, entry: Entry) {
        let mut lines = self.lines();
        if let Some(line) = lines.get_mut(entry.line) {
            *line = None;
        }
        self.write(entry.line, &mut Vec::new());
    }

    fn write(&self, line: usize, bytes: &mut Vec<u8>) {
        let Some(file) = &self.file else { return };
        bytes.resize(LINE - 1, b' ');
        bytes.push(b'\n');
        if let Err(error) = file.write_all_at(bytes, (line * LINE) as u64) {
            tracing::error!(%error, "followed runtime not recorded");
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Option<FollowedRuntime>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use std::fs;

    fn followed(pid: i32) -> FollowedRuntime {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.incarnation = i64::MIN;
        let process = ProcessIdentity { pid, start_time: u64::MAX };
        FollowedRuntime::new(FollowedVerb::Delete, process, &record)
    }

    #[test]
    fn the_next_nrid_reads_what_the_previous_one_has_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let first = FollowedRuntimes::open(dir.path());
        let [a, b, c] = [i32::MIN, 2, 3].map(|pid| first.add(followed(pid)));
        first.remove(b);
        first.remove(first.add(followed(4)));
        drop((a, c, first));
        let next = FollowedRuntimes::open(dir.path());
        let pids = |table: &FollowedRuntimes| -> Vec<i32> {
            table.all().into_iter().map(|(_, followed)| followed.process.pid).collect()
        };
        assert_eq!(pids(&next), [i32::MIN, 3]);
        assert_eq!(next.all()[0].1, followed(i32::MIN));
        // The free line is used again.
        let _ = next.add(followed(5));
        assert_eq!(pids(&next), [i32::MIN, 5, 3]);
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap().len(), 3 * LINE);
    }

    #[test]
    fn broken_lines_are_free() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), format!("{{{}\n{{\"verb\"", " ".repeat(LINE - 2)))
            .unwrap();
        let table = FollowedRuntimes::open(dir.path());
        assert!(table.all().is_empty());
        let _ = table.add(followed(7));
        assert_eq!(FollowedRuntimes::open(dir.path()).all()[0].1, followed(7));
    }
}
