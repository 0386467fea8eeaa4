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
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// Name of the file in the state directory.
const FILE: &str = "followed";

/// Length of a line. The longest entry has 143 bytes.
const LINE: usize = 160;

/// Maximum size of the file, in bytes: far more runtimes than a host can run at once.
const MAX_SIZE: usize = 1 << 24;

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
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// `None` if the file cannot be opened.
    file: Option<File>,
    /// What each line has; `None` for a free one.
    lines: Vec<Option<FollowedRuntime>>,
}

impl FollowedRuntimes {
    /// Opens the file, and reads the entries of the previous `nrid`.
    pub fn open(state_dir: &Path) -> Self {
        let read = |file: File| -> io::Result<Table> {
            let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
            if size > MAX_SIZE {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, 0)?;
            let lines = bytes.chunks(LINE).map(|line| serde_json::from_slice(line).ok()).collect();
            Ok(Table { file: Some(file), lines })
        };
        let table = open_file(state_dir).and_then(read).unwrap_or_else(|error| {
            log_unusable(state_dir, &error);
            Table::default()
        });
        Self { table: Mutex::new(table) }
    }

    /// Writes the file again, after the state directory was removed.
    pub fn save_again(&self, state_dir: &Path) {
        let mut table = self.table();
        // A file that was put there instead may be longer.
        let opened = open_file(state_dir).and_then(|file| file.set_len(0).map(|()| file));
        table.file = opened.inspect_err(|e| log_unusable(state_dir, e)).ok();
        for line in 0..table.lines.len() {
            table.write(line);
        }
    }

    /// Returns the entries.
    pub fn all(&self) -> Vec<(Entry, FollowedRuntime)> {
        let table = self.table();
        let used = table.lines.iter().enumerate();
        used.filter_map(|(line, used)| Some((Entry { line }, used.clone()?))).collect()
    }

    /// Whether a runtime is followed that runs a verb for this container.
    pub fn has(&self, container: &Container) -> bool {
        let record = container.record();
        let name = record.key.hook_name(record.incarnation);
        self.table().lines.iter().flatten().any(|followed| followed.container == name)
    }

    /// Adds an entry. Without it, the next `nrid` finds out what happened as it does for verbs that
    /// no one reported; so a failure is no reason not to follow.
    pub fn add(&self, followed: FollowedRuntime) -> Entry {
        let mut table = self.table();
        let lines = &mut table.lines;
        let free = lines.iter().position(Option::is_none);
        let line = free.unwrap_or(lines.len());
        match lines.get_mut(line) {
            Some(free) => *free = Some(followed),
            None => lines.push(Some(followed)),
        }
        table.write(line);
        Entry { line }
    }

    /// Removes an entry, whose outcome is in the record.
    pub fn remove(&self, entry: Entry) {
        let mut table = self.table();
        if let Some(line) = table.lines.get_mut(entry.line) {
            *line = None;
        }
        table.write(entry.line);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    /// Writes a line to the file.
    fn write(&self, line: usize) {
        let Some(file) = &self.file else { return };
        let followed = self.lines.get(line).and_then(Option::as_ref);
        let mut bytes = followed
            .map(|followed| serde_json::to_vec(followed).unwrap_or_default())
            .unwrap_or_default();
        bytes.resize(LINE - 1, b' ');
        bytes.push(b'\n');
        if let Err(error) = file.write_all_at(&bytes, (line * LINE) as u64) {
            tracing::error!(%error, "followed runtime not recorded");
        }
    }
}

fn open_file(state_dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(state_dir.join(FILE))
}

fn log_unusable(state_dir: &Path, error: &io::Error) {
    let path = state_dir.join(FILE);
    tracing::error!(path = %path.display(), %error, "followed runtimes not recorded");
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
    fn the_file_is_written_again_after_it_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let table = FollowedRuntimes::open(dir.path());
        let [a, _b] = [1, 2].map(|pid| table.add(followed(pid)));
        table.remove(a);
        fs::remove_file(dir.path().join(FILE)).unwrap();
        table.save_again(dir.path());
        let _ = table.add(followed(3));
        let next = FollowedRuntimes::open(dir.path()).all();
        let pids: Vec<i32> = next.iter().map(|(_, followed)| followed.process.pid).collect();
        assert_eq!(pids, [3, 2]);
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
