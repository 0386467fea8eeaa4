//! Spare files: files of removed or replaced records, which are used again for new records. On a
//! disk, this avoids the two slowest steps of writing a record. To create a file, ext4 searches for
//! an inode that was not deleted a moment ago. A rename over an existing file makes ext4 write the
//! new file to the disk at once, so the two files are exchanged instead.
//!
//! A spare file has one byte. The rest is removed, because the data of a removed container must not
//! remain. One byte stays, because ext4 writes a file to the disk on close if it was truncated to
//! nothing before.

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{OFlags, RenameFlags, renameat_with};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Maximum number of spare files: enough for containers that are created at the same time.
const MAX_SPARES: usize = 32;

/// The spare files of the records, in a directory of their own.
#[derive(Debug)]
pub(super) struct Spares {
    dir: PathBuf,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    free: Vec<PathBuf>,
    next: u64,
}

/// Whether the written record is new, or replaces an existing record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteTarget {
    New,
    Existing,
}

impl Spares {
    /// Uses `dir` for the spare files. Removes the files of the previous `nrid` in it.
    pub(super) fn new(dir: PathBuf) -> Self {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        Self { dir, names: Mutex::default() }
    }

    /// Returns the spare files of a process that writes none.
    pub(super) fn unused(dir: PathBuf) -> Self {
        Self { dir, names: Mutex::default() }
    }

    /// Returns the directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// The file cannot be written. The old file then remains.
    pub(super) fn write(&self, path: &Path, bytes: &[u8], target: WriteTarget) -> io::Result<()> {
        let temporary = match self.take() {
            Some(spare) if refill(&spare, bytes).is_ok() => spare,
            unusable => {
                // The spare file is removed first: on a full disk, what `refill` has already
                // written to it takes the space that the new file needs.
                if let Some(spare) = unusable {
                    let _ = fs::remove_file(spare);
                }
                let new = self.name();
                self.create(&new, bytes).inspect_err(|_| drop(fs::remove_file(&new)))?;
                new
            }
        };
        let put = || match target {
            WriteTarget::Existing => exchange(&temporary, path),
            WriteTarget::New => fs::rename(&temporary, path).map(|()| false),
        };
        if put().inspect_err(|_| drop(fs::remove_file(&temporary)))? {
            self.keep(temporary);
        }
        Ok(())
    }

    /// Writes a new file. Creates the directory again if it was removed.
    fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match create(path, bytes) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().mode(0o700).create(&self.dir)?;
                create(path, bytes)
            }
            result => result,
        }
    }

    /// Removes a record's file, and keeps it as a spare file if there is room for it.
    pub(super) fn remove(&self, path: &Path) {
        if self.names().free.len() < MAX_SPARES {
            let spare = self.name();
            if fs::rename(path, &spare).is_ok() {
                return self.keep(spare);
            }
        }
        let _ = fs::remove_file(path);
    }

    /// Keeps a file in the directory as a spare file.
    fn keep(&self, spare: PathBuf) {
        let is_erased = open(&spare).and_then(|file| file.set_len(1)).is_ok();
        let mut names = self.names();
        if is_erased && names.free.len() < MAX_SPARES {
            names.free.push(spare);
        } else {
            drop(names);
            let _ = fs::remove_file(spare);
        }
    }

    fn take(&self) -> Option<PathBuf> {
        self.names().free.pop()
    }

    /// Returns a name that no file has.
    fn name(&self) -> PathBuf {
        let mut names = self.names();
        names.next += 1;
        self.dir.join(names.next.to_string())
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock()
    }
}

fn open(spare: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(spare)
}

fn refill(spare: &Path, bytes: &[u8]) -> io::Result<()> {
    // Not truncated: a record is longer than the one byte in the file.
    open(spare)?.write_all(bytes)
}

fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // An existing file is removed and not reused, because it could be a symbolic link.
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

/// Moves the file `new` to `path`. Returns whether the old file at `path` now has the name `new`.
fn exchange(new: &Path, path: &Path) -> io::Result<bool> {
    let cwd = rustix::fs::CWD;
    match renameat_with(cwd, new, cwd, path, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        // There is no file at `path`, or the file system cannot exchange files.
        Err(_) => fs::rename(new, path).map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_used_again_and_keep_nothing_of_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let spare_dir = dir.path().join("spare");
        fs::create_dir(&spare_dir).unwrap();
        fs::write(spare_dir.join("left"), "by a killed nrid").unwrap();
        let spares = Spares::new(spare_dir.clone());
        let sizes = || {
            let files = fs::read_dir(&spare_dir).unwrap();
            files.map(|file| file.unwrap().metadata().unwrap().len()).collect::<Vec<_>>()
        };
        assert!(sizes().is_empty());
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        spares.write(&a, b"first", WriteTarget::New).unwrap();
        let first = inode(&a);
        spares.write(&a, b"longer second", WriteTarget::Existing).unwrap();
        assert_eq!((fs::read(&a).unwrap(), sizes()), (b"longer second".to_vec(), vec![1]));
        spares.write(&b, b"other", WriteTarget::New).unwrap();
        assert_eq!((fs::read(&b).unwrap(), inode(&b)), (b"other".to_vec(), first));
        spares.remove(&a);
        spares.remove(&b);
        assert!(!a.exists() && !b.exists());
        assert_eq!(sizes(), [1, 1]);
        // The removed directory is created again, and the record is written to `a` through a new
        // file, since no spare file is left.
        fs::remove_dir_all(&spare_dir).unwrap();
        spares.write(&a, b"third", WriteTarget::Existing).unwrap();
        assert_eq!(fs::read(&a).unwrap(), b"third");
        assert_eq!(fs::metadata(&a).unwrap().mode() & 0o777, 0o600);
        for n in 0..MAX_SPARES + 5 {
            spares.write(&dir.path().join(n.to_string()), b"x", WriteTarget::New).unwrap();
        }
        (0..MAX_SPARES + 5).for_each(|n| spares.remove(&dir.path().join(n.to_string())));
        assert_eq!(sizes().len(), MAX_SPARES);
    }

    #[test]
    fn a_spare_file_that_cannot_be_filled_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::new(dir.path().join("spare"));
        let path = dir.path().join("a");
        spares.write(&path, b"first", WriteTarget::New).unwrap();
        spares.remove(&path);
        // The only spare file cannot be filled, and the file in its place cannot be created, as on
        // a full disk.
        let spare = fs::read_dir(dir.path().join("spare")).unwrap().next().unwrap().unwrap().path();
        fs::remove_file(&spare).unwrap();
        std::os::unix::fs::symlink("/dev/full", &spare).unwrap();
        let next = dir.path().join("spare").join((spares.names().next + 1).to_string());
        fs::create_dir(&next).unwrap();
        assert!(spares.write(&path, b"second", WriteTarget::New).is_err());
        assert!(spare.symlink_metadata().is_err() && !path.exists());
        spares.write(&path, b"third", WriteTarget::New).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::new(dir.path().join("missing/spare"));
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        assert!(spares.write(&path, b"new", WriteTarget::Existing).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        // The record is removed although its file cannot be kept as a spare file.
        spares.remove(&path);
        assert!(!path.exists());
    }
}
