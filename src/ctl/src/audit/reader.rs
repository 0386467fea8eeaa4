//! Reads the audit log: the previous file, then the current one, then what is added.

use nri_control::{AuditLine, PREVIOUS_SUFFIX};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A line as it is in the file, and what it says.
#[derive(Debug)]
pub(super) struct LogEntry {
    pub(super) text: String,
    pub(super) line: AuditLine,
}

/// Reader of the lines of an audit log.
#[derive(Debug)]
pub(super) struct LogReader {
    path: PathBuf,
    /// The previous file, until it has been read.
    previous: Option<BufReader<File>>,
    current: Option<BufReader<File>>,
    /// Beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl LogReader {
    /// Opens the log. A file that does not exist has no lines.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // The current file first: if it is renamed meanwhile, its lines are in both.
        let current = open(path)?;
        let mut previous_path = path.as_os_str().to_owned();
        previous_path.push(PREVIOUS_SUFFIX);
        let previous = open(Path::new(&previous_path))?;
        let is_same = match (&previous, &current) {
            (Some(a), Some(b)) => identity(a.get_ref())? == identity(b.get_ref())?,
            _ => false,
        };
        let previous = previous.filter(|_| !is_same);
        Ok(Self { path: path.to_owned(), previous, current, partial: Vec::new() })
    }

    /// Whether there is a log.
    pub(super) fn exists(&self) -> bool {
        self.previous.is_some() || self.current.is_some()
    }

    /// Returns the next line; `None` at the end so far. Lines that are not of the audit log are
    /// skipped: an `nrid` that was killed may have written a part of one.
    pub(super) fn next(&mut self) -> io::Result<Option<LogEntry>> {
        loop {
            let Some(reader) = self.previous.as_mut().or(self.current.as_mut()) else {
                self.current = open(&self.path)?;
                if self.current.is_none() {
                    return Ok(None);
                }
                continue;
            };
            reader.read_until(b'\n', &mut self.partial)?;
            if self.partial.last() != Some(&b'\n') {
                if self.previous.take().is_some() || self.is_replaced()? {
                    self.partial.clear();
                    continue;
                }
                return Ok(None);
            }
            let bytes = std::mem::take(&mut self.partial);
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if let Ok(line) = serde_json::from_str(&text) {
                return Ok(Some(LogEntry { text, line }));
            }
        }
    }

    /// Opens the file at the path if it is another one than the file that was read to its end.
    fn is_replaced(&mut self) -> io::Result<bool> {
        let Some(at_path) = open(&self.path)? else { return Ok(false) };
        let is_same = match &self.current {
            Some(current) => identity(current.get_ref())? == identity(at_path.get_ref())?,
            None => false,
        };
        if is_same {
            return Ok(false);
        }
        // Lines may have been added between the last read and the rename.
        if let Some(current) = &mut self.current
            && !current.fill_buf()?.is_empty()
        {
            self.previous = self.current.replace(at_path);
        } else {
            self.current = Some(at_path);
        }
        Ok(true)
    }
}

/// Opens a file; `None` if it does not exist.
fn open(path: &Path) -> io::Result<Option<BufReader<File>>> {
    match File::open(path) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Write};

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
