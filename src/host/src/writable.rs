//! Whether files can be written to a directory, found by writing one.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

/// Size of the file that is written. The record of a container has the engine's `config.json`
/// besides a few kilobytes; engines write 10 to 40 KiB.
const SIZE: usize = 64 << 10;

/// Writes a file of the size of a large record to a directory, and removes it again.
///
/// # Errors
/// The file cannot be written: [`io::ErrorKind::StorageFull`] or
/// [`io::ErrorKind::QuotaExceeded`] if there is no room.
pub fn check_writable(dir: &Path) -> io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Not `.json`: nrid removes files of interrupted writes when it reads its records.
    let path = dir.join(format!("probe-{}-{number}", std::process::id()));
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let file = match create() {
        // Of a killed process that had the same id.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&path).and_then(|()| create())
        }
        created => created,
    };
    let written = file?.write_all(&vec![0; SIZE]);
    let removed = fs::remove_file(&path);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writable_directory_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        check_writable(dir.path()).unwrap();
        let stale = format!("probe-{}-{}", std::process::id(), 1);
        fs::write(dir.path().join(stale), "stale").unwrap();
        check_writable(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let missing = check_writable(&dir.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
