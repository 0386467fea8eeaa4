//! Reads the audit log.

use crate::rotated_log::RotatedLog;
use nri_files::AuditLine;
use std::{io, path::Path};

/// A line as it is in the file, and what it says.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) text: String,
    pub(super) line: AuditLine,
}

/// Reader of the lines of an audit log.
#[derive(Debug)]
pub(super) struct LogReader(RotatedLog);

impl LogReader {
    /// Opens the log. A file that does not exist has no lines.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        RotatedLog::open(path).map(Self)
    }

    /// Whether there is a log.
    pub(super) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Returns the next line; `None` at the end so far. Lines that are not of the audit log are
    /// skipped: an `nrid` that was killed may have written a part of one.
    pub(super) fn next(&mut self) -> io::Result<Option<LogEntry>> {
        while let Some(text) = self.0.next()? {
            if let Ok(line) = serde_json::from_str(&text) {
                return Ok(Some(LogEntry { text, line }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        io::Write,
    };

    fn line(container: &str) -> String {
        format!("{{\"time\":\"t\",\"event\":\"created\",\"container\":\"{container}\"}}\n")
    }

    fn all(reader: &mut LogReader) -> String {
        let mut found = String::new();
        while let Some(entry) = reader.next().unwrap() {
            found += &entry.line.container;
        }
        found
    }

    #[test]
    fn the_previous_file_comes_first_and_rotation_loses_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("log"), dir.path().join("log.1"));
        let mut reader = LogReader::open(&path).unwrap();
        assert!(!reader.exists() && reader.next().unwrap().is_none());
        fs::write(&previous, line("a")).unwrap();
        fs::write(&path, format!("{}broken\n{}", line("b"), &line("c")[..9])).unwrap();
        let mut reader = LogReader::open(&path).unwrap();
        assert_eq!(all(&mut reader), "ab");
        let mut file = File::options().append(true).open(&path).unwrap();
        write!(file, "{}{}", &line("c")[9..], line("d")).unwrap();
        assert_eq!(all(&mut reader), "cd");
        write!(file, "{}", line("e")).unwrap();
        fs::rename(&path, &previous).unwrap();
        fs::write(&path, line("f")).unwrap();
        assert_eq!(all(&mut reader), "ef");
    }
}
