//! Whether a file can be accessed without waiting for a file system that hangs.
//!
//! Not even SIGKILL ends a process that waits for such a file system, and no time limit is possible
//! within one thread. A file below the mount of `/` is accessed at once: if that hangs, so does the
//! host. For any other file, a child of the program that asks accesses it first, with a time limit
//! ([`Answers`]): it stays behind if it hangs. This crate starts no process.

use crate::environment::absolute;
use nri_trust::read_regular;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

/// Time that a file system has for the access of a child. It takes milliseconds, also with a
/// server on another host, and engines wait for each call of the wrapper.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a child that accesses this file ([`touch`](crate::touch)) ends within
/// [`ANSWER_TIMEOUT`].
pub type Answers = fn(&Path) -> bool;

/// How far the path of a file leads below the mount of `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To the file, or to an error that an access reports, too.
    File,
    /// To a directory without the next component.
    Missing,
    /// To another mount, or the kernel does not tell (before Linux 5.6).
    OtherMount,
}

impl Reach {
    /// Follows a path up to the first mount point below `/`.
    pub(crate) fn of(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
            Err(Errno::NOENT | Errno::NOTDIR) => Self::Missing,
            // The last one: a filter of system calls that does not know this one.
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => Self::OtherMount,
            _ => Self::File,
        }
    }
}

/// Whether a file, whose path is absolute, is on a file system that does not answer.
pub(crate) fn hangs(path: &Path, answers: Answers) -> bool {
    Reach::of(path) == Reach::OtherMount && !answers(path)
}

/// Reads a file like [`read_regular`], but does not wait for a file system that hangs.
///
/// # Errors
/// The errors of [`read_regular`], or the file system does not answer ([`ErrorKind::TimedOut`]).
pub fn read_in_time(path: &Path, limit: u64, answers: Answers) -> io::Result<Vec<u8>> {
    let path = absolute(path);
    if hangs(&path, answers) {
        let text = format!("its file system hangs, no answer within {ANSWER_TIMEOUT:?}");
        return Err(io::Error::new(ErrorKind::TimedOut, text));
    }
    read_regular(&path, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_anyone_is_read_if_its_file_system_answers() {
        fn read(path: &str, limit: u64, answers: Answers) -> Result<Vec<u8>, String> {
            read_in_time(Path::new(path), limit, answers).map_err(|error| error.to_string())
        }
        assert!(!read("/proc/version", 4096, |_| true).unwrap().is_empty());
        let hangs = "its file system hangs, no answer within 2s";
        assert_eq!(read("/proc/version", 4096, |_| false).unwrap_err(), hangs);
        let large = "the file is larger than the limit of 1 bytes";
        assert_eq!(read("/proc/version", 1, |_| true).unwrap_err(), large);
        let missing = "No such file or directory (os error 2)";
        assert_eq!(read("/none", 4096, |_| false).unwrap_err(), missing);
    }

    #[test]
    fn paths_below_the_mount_of_the_root_are_reached() {
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/version", link.path().join("link")).unwrap();
        for (path, expected) in [
            ("/", Reach::File),
            ("/none/a", Reach::Missing),
            ("/proc", Reach::OtherMount),
            ("/proc/none", Reach::OtherMount),
            (link.path().join("link").to_str().unwrap(), Reach::OtherMount),
        ] {
            assert_eq!(Reach::of(Path::new(path)), expected, "{path}");
        }
    }
}
