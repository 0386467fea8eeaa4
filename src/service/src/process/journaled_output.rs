//! The log in the journal, and in a file while journald does not receive.

use crate::{host::bounded_file::BoundedFile, process::journal::Journal};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};
use tracing::{Event, Level};

/// A log that goes to the journal. Each line that journald does not receive goes to a file, and the
/// next line that it receives is preceded by one that says so.
#[derive(Debug)]
pub(super) struct JournaledOutput {
    journal: Journal,
    path: PathBuf,
    max_size: u64,
    failure: Option<JournalFailure>,
}

/// What happened since journald does not receive.
#[derive(Debug)]
struct JournalFailure {
    error: io::Error,
    /// `None` if it cannot be opened.
    file: Option<BoundedFile>,
    lines: u64,
    lost: Option<LostLines>,
}

/// Lines that neither the journal nor the file has.
#[derive(Debug)]
struct LostLines {
    count: u64,
    error: io::Error,
}

impl JournaledOutput {
    /// Returns the output. The file, of a maximum size, is created only if journald does not
    /// receive.
    pub(super) fn new(journal: Journal, path: PathBuf, max_size: u64) -> Self {
        let mut output = Self { journal, path, max_size, failure: None };
        if let Err(error) = output.journal.check() {
            output.fail(error);
        }
        output
    }

    /// Sends an event. Returns whether journald has received it; otherwise the caller passes its
    /// line to [`JournaledOutput::write_to_file`].
    pub(super) fn send(&mut self, event: &Event<'_>) -> bool {
        let resumed = match self.failure.as_ref().and_then(|failure| failure.summary(&self.path)) {
            Some(line) => self.journal.send_line(Level::WARN, &line),
            None => Ok(()),
        };
        let sent = resumed.and_then(|()| {
            let sent = self.journal.send_event(event);
            if sent.is_ok() || self.failure.as_ref().is_some_and(|failure| failure.lines > 0) {
                self.failure = None;
            }
            sent
        });
        let Err(error) = sent else { return true };
        let failure = self.fail(error);
        failure.lines += 1;
        false
    }

    /// Begins to write to the file, if that has not begun.
    fn fail(&mut self, error: io::Error) -> &mut JournalFailure {
        let (path, max_size) = (&self.path, self.max_size);
        self.failure.get_or_insert_with(|| JournalFailure::new(error, path, max_size))
    }

    /// Writes a line that journald has not received.
    pub(super) fn write_to_file(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut self.failure {
            Some(failure) => failure.write(line),
            // journald has received an event of another thread in the meantime.
            None => BoundedFile::open(&self.path, self.max_size)?.write_all(line)?,
        }
        Ok(line.len())
    }

    /// Returns the path of the file while lines go there.
    pub(super) fn file_in_use(&self) -> Option<&Path> {
        self.failure.as_ref()?.file.as_ref().map(BoundedFile::path)
    }

    /// Returns why lines go to the file.
    pub(super) fn error(&self) -> Option<&io::Error> {
        self.failure.as_ref().map(|failure| &failure.error)
    }
}

impl JournalFailure {
    fn new(error: io::Error, path: &Path, max_size: u64) -> Self {
        let time = humantime::format_rfc3339_micros(SystemTime::now());
        let line = format!(
            "{time}  WARN journald does not receive, lines go to this file until it does \
             error={error}\n"
        );
        match BoundedFile::open(path, max_size) {
            Ok(mut file) => {
                // The lines that follow say whether the file can be written.
                let _ = file.write_all(line.as_bytes());
                Self { error, file: Some(file), lines: 0, lost: None }
            }
            Err(unopened) => {
                let lost = LostLines { count: 0, error: unopened };
                Self { error, file: None, lines: 0, lost: Some(lost) }
            }
        }
    }

    fn write(&mut self, line: &[u8]) {
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(line));
        if let (Err(error), None) = (&written, &self.lost) {
            let error = io::Error::new(error.kind(), error.to_string());
            self.lost = Some(LostLines { count: 0, error });
        }
        if let Some(lost) = self.lost.as_mut().filter(|_| written.is_err() || self.file.is_none()) {
            lost.count += 1;
        }
    }

    /// Returns the line with which the journal continues, if there were lines.
    fn summary(&self, path: &Path) -> Option<String> {
        let Self { error, lines, lost, .. } = self;
        let path = path.display();
        let kept = lines.saturating_sub(lost.as_ref().map_or(0, |lost| lost.count));
        let lost = match lost {
            Some(LostLines { count, error }) if *count > 0 => format!(", {count} lost: {error}"),
            _ => String::new(),
        };
        let text = format!("journald did not receive ({error}): lines in {path}: {kept}{lost}");
        (*lines > 0).then_some(text)
    }
}
