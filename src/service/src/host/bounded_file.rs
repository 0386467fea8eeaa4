//! [`BoundedFile`]: a log file of limited size, beside the previous one. For what `nrid` appends
//! for people; a write has no time limit (see `file_access.rs`).

use nri_trust::Owners;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A log file of limited size.
#[derive(Debug)]
pub struct BoundedFile {
    path: PathBuf,
    file: File,
    /// Size of the file; `None` for a pipe or device, which does not grow.
    size: Option<u64>,
    max_size: u64,
}

impl BoundedFile {
    /// Opens a file, and creates it if it does not exist. Before it grows beyond `max_size` bytes,
    /// it is renamed to `PATH.1`.
    ///
    /// # Errors
    /// The file cannot be opened, or belongs to another user.
    pub fn open(path: &Path, max_size: u64) -> io::Result<Self> {
        // Rotation renames the target of a trusted link, not the link.
        let path = if is_trusted_link(path) {
            fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        let file = open_file(&path)?;
        let meta = file.metadata()?;
        Ok(Self { path, file, size: meta.is_file().then_some(meta.len()), max_size })
    }

    /// Opens a file as [`BoundedFile::open`], but no pipe: its reader may stop to read, and nobody
    /// else can read what was written.
    ///
    /// # Errors
    /// The file cannot be opened, belongs to another user, or is a pipe or a socket.
    pub fn open_no_pipe(path: &Path, max_size: u64) -> io::Result<Self> {
        let is_pipe = |kind: fs::FileType| kind.is_fifo() || kind.is_socket();
        if fs::metadata(path).is_ok_and(|meta| is_pipe(meta.file_type())) {
            return Err(io::Error::other("it is a pipe or a socket, not a file"));
        }
        Self::open(path, max_size)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file and starts a new one. If that fails, truncates the old file: a full disk is
    /// worse than a lost log.
    fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.path.as_os_str().to_owned();
        old.push(".1");
        match fs::rename(&self.path, PathBuf::from(old)).and_then(|()| open_file(&self.path)) {
            Ok(file) => self.file = file,
            Err(_) => self.file.set_len(0)?,
        }
        self.size = Some(0);
        Ok(())
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self
            .size
            .is_some_and(|size| size > 0 && size.saturating_add(bytes.len() as u64) > self.max_size)
        {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.size = self.size.map(|size| size.saturating_add(written as u64));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_trusted_link(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_symlink() && Owners::of_this_process().contains(m.uid()))
}

/// Opens the file. Links and files of other users are refused, because other users may write in the
/// directory.
fn open_file(path: &Path) -> io::Result<File> {
    let follow = if is_trusted_link(path) { 0 } else { libc::O_NOFOLLOW };
    // A pipe that no process reads must not stop the writer.
    let flags = follow | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other("no process reads this pipe"),
            _ => error,
        })?;
    let meta = file.metadata()?;
    if meta.is_file() && !Owners::of_this_process().contains(meta.uid()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the file belongs to user {}", meta.uid()),
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    #[test]
    fn files_and_links_of_other_users_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        open_file(&path("new")).unwrap();
        assert_eq!(fs::metadata(path("new")).unwrap().permissions().mode() & 0o777, 0o600);
        symlink("new", path("link")).unwrap();
        open_file(&path("link")).unwrap();
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can change the owner of a file");
            return;
        }
        lchown(path("link"), Some(4711), None).unwrap();
        assert!(open_file(&path("link")).is_err());
        fs::write(path("other-user"), "").unwrap();
        chown(path("other-user"), Some(4711), None).unwrap();
        let error = open_file(&path("other-user")).unwrap_err().to_string();
        assert_eq!(error, "the file belongs to user 4711");
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let error = open_file(&path).unwrap_err().to_string();
        assert_eq!(error, "no process reads this pipe");
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        open_file(&path).unwrap().write_all(b"x").unwrap();
        drop(reader);
    }

    #[test]
    fn a_log_file_of_maximum_size_is_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let sizes = || ["log", "log.1"].map(|name| fs::metadata(path(name)).map_or(0, |m| m.len()));
        fs::write(path("log"), "x".repeat(90)).unwrap();
        let mut log = BoundedFile::open(&path("log"), 100).unwrap();
        log.write_all(b"0123456789").unwrap();
        assert_eq!(sizes(), [100, 0]);
        log.write_all(b"next").unwrap();
        assert_eq!(sizes(), [4, 100]);
        for _ in 0..1000 {
            log.write_all(b"0123456789").unwrap();
        }
        assert!(sizes().into_iter().all(|size| size <= 100), "{:?}", sizes());
        // A line longer than the maximum is written to a file of its own.
        log.write_all(&[b'y'; 150]).unwrap();
        assert_eq!(sizes()[0], 150);
        // A file that cannot be renamed is truncated.
        fs::remove_file(path("log.1")).unwrap();
        fs::create_dir(path("log.1")).unwrap();
        log.write_all(b"anew").unwrap();
        assert_eq!(fs::read(path("log")).unwrap(), b"anew");
    }

    #[test]
    fn rotation_keeps_a_trusted_link_and_does_not_rename_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("real"), "").unwrap();
        symlink("real", path("link")).unwrap();
        let mut log = BoundedFile::open(&path("link"), 10).unwrap();
        log.write_all(b"0123456789").unwrap();
        log.write_all(b"x").unwrap();
        assert_eq!(fs::read(path("link")).unwrap(), b"x");
        assert!(
            fs::symlink_metadata(path("link")).unwrap().is_symlink() && path("real.1").is_file()
        );
        let mut null = BoundedFile::open(Path::new("/dev/null"), 10).unwrap();
        for _ in 0..3 {
            null.write_all(b"0123456789").unwrap();
        }
        assert!(!Path::new("/dev/null.1").exists());
    }
}
