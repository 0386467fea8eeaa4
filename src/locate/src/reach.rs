//! Whether a file can be accessed without waiting for a file system that hangs.
//!
//! Not even SIGKILL ends a process that waits for such a file system, and no time limit is possible
//! within one thread. A file below the mount of `/` is accessed at once: if that hangs, so does the
//! host. For any other file, a child of the program that asks accesses it first, with a time limit
//! ([`Answers`]): it stays behind if it hangs. This crate starts no process.

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use std::{path::Path, time::Duration};

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

#[cfg(test)]
mod tests {
    use super::*;

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
