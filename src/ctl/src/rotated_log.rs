//! A log that is read while it is written: the previous file, then the current one, then what is
//! added. A file that is renamed meanwhile is read to its end.

use nri_files::PREVIOUS_SUFFIX;
use rustix::fs::OFlags;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Seek},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Reader of the lines of a log.
#[derive(Debug)]
pub(crate) struct RotatedLog {
    path: PathBuf,
    /// The previous file, until it has been read.
    previous: Option<BufReader<File>>,
    current: Option<BufReader<File>>,
    /// Beginning of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl RotatedLog {
    /// Opens the log. A file that does not exist has no lines.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
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
    pub(crate) fn exists(&self) -> bool {
        self.previous.is_some() || self.current.is_some()
    }

    /// Returns the next line without its end; `None` at the end so far.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
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
            return Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()));
        }
    }

    /// Opens the file at the path if it is another one than the file that was read to its end, or
    /// begins again if it was truncated.
    fn is_replaced(&mut self) -> io::Result<bool> {
        if let Some(current) = &mut self.current {
            let meta = current.get_ref().metadata()?;
            if meta.is_file() && meta.len() < current.stream_position()? {
                current.rewind()?;
                return Ok(true);
            }
        }
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

/// Opens a file; `None` if it does not exist. A pipe would be waited for, and a device may have no
/// end.
fn open(path: &Path) -> io::Result<Option<BufReader<File>>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) if !file.metadata()?.is_file() => Err(io::Error::other("it is not a file")),
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

    fn all(log: &mut RotatedLog) -> String {
        let mut found = String::new();
        while let Some(line) = log.next().unwrap() {
            found += &line;
        }
        found
    }

    #[test]
    fn the_previous_file_comes_first_and_rotation_loses_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let (path, previous) = (dir.path().join("log"), dir.path().join("log.1"));
        let mut log = RotatedLog::open(&path).unwrap();
        assert!(!log.exists() && log.next().unwrap().is_none());
        fs::write(&previous, "a\n").unwrap();
        fs::write(&path, "b\nhalf of c").unwrap();
        let mut log = RotatedLog::open(&path).unwrap();
        assert_eq!(all(&mut log), "ab");
        let mut file = File::options().append(true).open(&path).unwrap();
        write!(file, ", c\nd\n").unwrap();
        assert_eq!(all(&mut log), "half of c, cd");
        writeln!(file, "e").unwrap();
        fs::rename(&path, &previous).unwrap();
        fs::write(&path, "f\n").unwrap();
        assert_eq!(all(&mut log), "ef");
    }

    #[test]
    fn a_pipe_or_a_device_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            let error = RotatedLog::open(path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a file", "{path:?}");
        }
    }

    #[test]
    fn a_truncated_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "a\nb\nhalf of c").unwrap();
        let mut log = RotatedLog::open(&path).unwrap();
        assert_eq!(all(&mut log), "ab");
        let file = File::options().append(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(all(&mut log), "");
        fs::write(&path, "d\n").unwrap();
        assert_eq!(all(&mut log), "d");
    }
}
