//! [`Audit`]: the queue of lines, and the thread that writes them.

use crate::{audit::mask::mask, host::bounded_file::BoundedFile, settings::load::Settings};
use nri_files::{AUDIT_LOG, AuditEvent, AuditLine, FieldChange};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, SystemTime},
};

/// Maximum number of lines in the queue: more than plugins cause in [`BATCH_INTERVAL`].
const MAX_QUEUED: usize = 4096;

/// Maximum number of changed fields in the queue, which limits its memory while a disk hangs.
const MAX_QUEUED_CHANGES: usize = 16 << 10;

/// Time for which lines are collected before they are written, so that the thread does not run
/// while the container of the first line is still being created.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which opening the file is tried again: its directory may be created again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of bytes that are kept while the file cannot be opened.
const MAX_UNWRITTEN: usize = 1 << 20;

/// Number of bytes after which the lines so far are written at once.
const WRITE_SIZE: usize = 64 << 10;

/// Changes by plugin. The key is empty for changes that no plugin made, and has several plugins
/// separated by commas if each of them contributed.
pub type ChangesByPlugin = BTreeMap<String, Vec<FieldChange>>;

/// The audit log. Dropping its last clone ends its thread, once all lines are written.
#[derive(Debug, Clone)]
pub struct Audit {
    sender: SyncSender<Queued>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_enabled: AtomicBool,
    destination: Mutex<LogDestination>,
    queued_changes: AtomicUsize,
    lost: AtomicU64,
    /// Why the last lines could not be written.
    failure: Mutex<Option<String>>,
}

#[derive(Debug, Clone)]
struct LogDestination {
    path: PathBuf,
    max_size: u64,
    shows_environment: bool,
}

#[derive(Debug)]
enum Queued {
    Line(SystemTime, Box<AuditLine>),
    /// All lines before this are written when the sender is dropped.
    Flush(SyncSender<()>),
}

impl LogDestination {
    fn of(settings: &Settings) -> Self {
        let audit = &settings.config.audit;
        Self {
            path: audit.file.clone().unwrap_or_else(|| settings.state_dir.join(AUDIT_LOG)),
            max_size: audit.max_size,
            shows_environment: audit.environment_values,
        }
    }
}

impl Audit {
    /// Starts the thread.
    pub fn start(settings: &Settings) -> Self {
        let (audit, receiver) = Self::new(LogDestination::of(settings));
        let shared = audit.shared.clone();
        let writer = move || Writer::new(shared).run(&receiver);
        match thread::Builder::new().name("audit".to_owned()).spawn(writer) {
            Ok(_) => audit.set_enabled(settings.config.audit.enable),
            Err(error) => tracing::error!(%error, "no audit log: cannot start its thread"),
        }
        audit
    }

    /// Creates an audit log that is off.
    pub fn off() -> Self {
        let path = PathBuf::new();
        Self::new(LogDestination { path, max_size: 0, shows_environment: false }).0
    }

    fn new(destination: LogDestination) -> (Self, Receiver<Queued>) {
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let shared = Arc::new(Shared {
            is_enabled: AtomicBool::new(false),
            destination: Mutex::new(destination),
            queued_changes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            failure: Mutex::new(None),
        });
        (Self { sender, shared }, receiver)
    }

    fn set_enabled(&self, is_enabled: bool) {
        self.shared.is_enabled.store(is_enabled, Ordering::Relaxed);
    }

    /// Whether lines are written. Callers need not compute lines otherwise.
    pub fn is_enabled(&self) -> bool {
        self.shared.is_enabled.load(Ordering::Relaxed)
    }

    /// Adds a line to the queue. Never blocks: a line for which there is no room is counted.
    pub fn write(&self, line: AuditLine) {
        if !self.is_enabled() {
            return;
        }
        let (shared, changes) = (&self.shared, line.changes.len());
        let queued = shared.queued_changes.fetch_add(changes, Ordering::Relaxed);
        let has_room = queued + changes <= MAX_QUEUED_CHANGES || queued == 0;
        let queued = Queued::Line(SystemTime::now(), Box::new(line));
        if !has_room || self.sender.try_send(queued).is_err() {
            shared.queued_changes.fetch_sub(changes, Ordering::Relaxed);
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line for each plugin that made changes, the engine's first. `line` names the
    /// container and the event.
    pub fn write_changes(&self, line: &AuditLine, request: &str, changes: ChangesByPlugin) {
        for (plugin, changes) in changes {
            let request = request.to_owned();
            self.write(AuditLine { plugin, request, changes, ..line.clone() });
        }
    }

    /// Masks the values of a line as those of the log.
    pub fn mask(&self, line: &mut AuditLine) {
        mask(line, self.shared.destination.lock().shows_environment);
    }

    /// Returns why the last lines could not be written, if they could not.
    pub fn error(&self) -> Option<String> {
        self.shared.failure.lock().clone().filter(|_| self.is_enabled())
    }

    /// Applies the settings.
    pub fn apply(&self, settings: &Settings) {
        *self.shared.destination.lock() = LogDestination::of(settings);
        self.set_enabled(settings.config.audit.enable);
    }

    /// Waits until the lines so far are written, at most for `limit`.
    pub fn flush(&self, limit: Duration) {
        if !self.is_enabled() {
            return;
        }
        let (sender, receiver) = sync_channel(0);
        // A full queue means that the file hangs.
        let sent = self.sender.try_send(Queued::Flush(sender));
        if !matches!(sent, Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) {
            // The thread drops the sender.
            let _ = receiver.recv_timeout(limit);
        }
    }
}

/// The part of the audit log that its thread owns.
struct Writer {
    shared: Arc<Shared>,
    shows_environment: bool,
    /// Lines that are not in the file yet.
    text: Vec<u8>,
    /// Number of lines in `text`, and of the lines that they report as lost: those that are lost if
    /// `text` cannot be written.
    at_stake: u64,
}

impl Writer {
    fn new(shared: Arc<Shared>) -> Self {
        let shows_environment = shared.destination.lock().shows_environment;
        Self { shared, shows_environment, text: Vec::new(), at_stake: 0 }
    }

    /// Writes until all senders are gone.
    fn run(mut self, receiver: &Receiver<Queued>) {
        loop {
            let first = if self.text.is_empty() {
                receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                receiver.recv_timeout(RETRY_INTERVAL)
            };
            let first = match first {
                Ok(queued) => Some(queued),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.write_text(),
            };
            if matches!(first, Some(Queued::Line(..))) {
                thread::sleep(BATCH_INTERVAL);
            }
            let mut flushed = Vec::new();
            for queued in first.into_iter().chain(receiver.try_iter()) {
                match queued {
                    Queued::Line(time, line) => self.add(time, *line),
                    Queued::Flush(sender) => flushed.push(sender),
                }
                if self.text.len() >= WRITE_SIZE {
                    self.write_text();
                }
            }
            self.add_lost();
            self.write_text();
        }
    }

    fn add(&mut self, time: SystemTime, mut line: AuditLine) {
        self.shared.queued_changes.fetch_sub(line.changes.len(), Ordering::Relaxed);
        mask(&mut line, self.shows_environment);
        line.time = humantime::format_rfc3339_micros(time).to_string();
        if self.text.len() < MAX_UNWRITTEN && serde_json::to_writer(&mut self.text, &line).is_ok() {
            self.text.push(b'\n');
            self.at_stake += line.lost.unwrap_or(1);
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a line about the lines that were lost, if there are any.
    fn add_lost(&mut self) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && self.text.len() < MAX_UNWRITTEN {
            let line =
                AuditLine { event: AuditEvent::Lost, lost: Some(lost), ..AuditLine::default() };
            self.add(SystemTime::now(), line);
        } else {
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// Writes the lines so far. If the file cannot be opened, they are kept. The file is open only
    /// meanwhile: a descriptor is worth a container where few files may be open, and an
    /// administrator may rename or remove the file at any time.
    fn write_text(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let destination = self.shared.destination.lock().clone();
        self.shows_environment = destination.shows_environment;
        let mut file = match BoundedFile::open_no_pipe(&destination.path, destination.max_size) {
            Ok(file) => file,
            Err(error) => return self.log_failure(&error),
        };
        let written = file.write_all(&self.text);
        self.text.clear();
        match written {
            Ok(()) => *self.shared.failure.lock() = None,
            Err(error) => {
                self.shared.lost.fetch_add(self.at_stake, Ordering::Relaxed);
                self.log_failure(&error);
                // Ends the line that may have been written in part.
                self.text.push(b'\n');
            }
        }
        self.at_stake = 0;
    }

    /// Logs the first of several failures in a row.
    fn log_failure(&self, error: &io::Error) {
        let file = self.shared.destination.lock().path.clone();
        let message = format!("cannot write the audit log {}: {error}", file.display());
        if self.shared.failure.lock().replace(message.clone()).is_none() {
            tracing::error!("{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        io::Read,
        path::Path,
    };

    const LIMIT: Duration = Duration::from_secs(10);

    fn settings(dir: &Path, audit: &str) -> Settings {
        let file = dir.join("config.toml");
        fs::write(&file, format!("[audit]\n{audit}")).unwrap();
        Settings::load(Some(&file), Some(dir)).unwrap()
    }

    fn line(container: &str) -> AuditLine {
        AuditLine {
            event: AuditEvent::Created,
            container: container.to_owned(),
            ..AuditLine::default()
        }
    }

    fn read(path: &Path) -> Vec<AuditLine> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_are_written_in_order_and_a_removed_file_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(AUDIT_LOG);
        let audit = Audit::start(&settings(dir.path(), ""));
        audit.write(line("a"));
        audit.write(line("b"));
        audit.flush(LIMIT);
        let lines = read(&path);
        assert_eq!(lines.iter().map(|l| l.container.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(lines[0].time <= lines[1].time && lines[0].time.ends_with('Z'), "{lines:?}");
        fs::remove_file(&path).unwrap();
        audit.write(line("c"));
        audit.flush(LIMIT);
        assert_eq!(read(&path).len(), 1);
    }

    #[test]
    fn lines_wait_for_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let path = state.join(AUDIT_LOG);
        fs::create_dir(&state).unwrap();
        let audit = Audit::start(&settings(&state, ""));
        fs::remove_dir_all(&state).unwrap();
        audit.write(line("a"));
        audit.flush(LIMIT);
        assert!(!path.exists());
        let error = audit.error().unwrap();
        assert!(error.contains("audit.log: No such file or directory"), "{error}");
        fs::create_dir(&state).unwrap();
        while read(&path).is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(read(&path)[0].container, "a");
        audit.flush(LIMIT);
        assert_eq!(audit.error(), None);
    }

    /// Even one with a reader: `nrictl explain` could not read it.
    #[test]
    fn a_pipe_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let mut pipe_file = File::options().read(true).write(true).open(&pipe).unwrap();
        let audit = Audit::start(&settings(dir.path(), &format!("file = {pipe:?}")));
        audit.write(line("a"));
        audit.flush(LIMIT);
        let error = audit.error().unwrap();
        assert!(error.ends_with("/pipe: it is a pipe or a socket, not a file"), "{error}");
        pipe_file.write_all(b".").unwrap();
        let mut written = [0; 2];
        assert_eq!((pipe_file.read(&mut written).unwrap(), &written), (1, b".\0"));
    }

    #[test]
    fn a_reload_switches_the_log_off_on_and_to_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::start(&settings(dir.path(), "enable = false"));
        audit.write(line("off"));
        audit.flush(LIMIT);
        assert!(!dir.path().join(AUDIT_LOG).exists());
        let other = dir.path().join("other");
        let file = format!("file = {:?}\nmax_size = 100", other.display().to_string());
        audit.apply(&settings(dir.path(), &file));
        for _ in 0..10 {
            audit.write(line("on"));
            audit.flush(LIMIT);
        }
        let rotated = dir.path().join("other.1");
        assert!(fs::metadata(&other).unwrap().len() <= 100 && rotated.exists());
        assert!(!dir.path().join(AUDIT_LOG).exists());
    }

    #[test]
    fn lines_without_room_are_counted_and_the_count_is_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(AUDIT_LOG);
        let destination =
            LogDestination { path: path.clone(), max_size: 1 << 20, shows_environment: false };
        let (audit, receiver) = Audit::new(destination);
        audit.set_enabled(true);
        for _ in 0..MAX_QUEUED + 3 {
            audit.write(line("a"));
        }
        let shared = audit.shared.clone();
        drop(audit);
        Writer::new(shared).run(&receiver);
        let lines = read(&path);
        assert_eq!(lines.len(), MAX_QUEUED + 1);
        let last = lines.last().unwrap();
        assert_eq!((last.event, last.lost), (AuditEvent::Lost, Some(3)));
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_until_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(AUDIT_LOG);
        let destination = LogDestination {
            path: "/dev/full".into(),
            max_size: 1 << 20,
            shows_environment: false,
        };
        let (audit, _receiver) = Audit::new(destination);
        let mut writer = Writer::new(audit.shared.clone());
        for _ in 0..5 {
            writer.add(SystemTime::now(), line("a"));
        }
        for _ in 0..3 {
            writer.write_text();
            writer.add_lost();
        }
        audit.shared.destination.lock().path.clone_from(&path);
        writer.write_text();
        let text = fs::read_to_string(&path).unwrap();
        let last: AuditLine = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((last.event, last.lost), (AuditEvent::Lost, Some(5)));
        assert_eq!(audit.shared.lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_changed_fields_have_no_room() {
        let (audit, _receiver) = Audit::new(LogDestination {
            path: PathBuf::new(),
            max_size: 0,
            shows_environment: false,
        });
        audit.set_enabled(true);
        let changes = vec![FieldChange::default(); MAX_QUEUED_CHANGES];
        audit.write(AuditLine { changes: changes.clone(), ..AuditLine::default() });
        audit.write(AuditLine { changes, ..AuditLine::default() });
        audit.write(line("a"));
        assert_eq!(audit.shared.lost.load(Ordering::Relaxed), 1);
    }
}
