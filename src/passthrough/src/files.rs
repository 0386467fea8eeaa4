//! Reads a file if only trusted users can change it. Of the rules of `nri-trust`, this module has
//! only the usual case: the directories and the file belong to root or to our user, and none is a
//! link.

use core::{
    ffi::CStr,
    mem::{ManuallyDrop, MaybeUninit},
};
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    fs::{FileType, Mode, OFlags, Stat, fstat, lstat, open},
    io::{Errno, read},
    process::geteuid,
};

use crate::path_buffer::PathBuffer;

/// Space for a file, more than usual configurations need. The wrapper reads a larger file after the
/// C library's start.
pub(crate) type FileBuffer = [MaybeUninit<u8>; 16 << 10];

/// A file that may be missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TrustedFile<'a> {
    Text(&'a [u8]),
    Missing,
}

/// Reads the file at an absolute path. Returns `None` if the file is not known to be trusted, is
/// not a regular file, or does not fit into the buffer. `close` closes a descriptor.
pub(crate) fn read_trusted<'a>(
    path: &[u8],
    buffer: &'a mut FileBuffer,
    close: fn(RawFd),
) -> Option<TrustedFile<'a>> {
    let mut checked = PathBuffer::default();
    let below_root = path.strip_prefix(b"/")?;
    check(checked.set(&[b"/"])?, FileType::Directory).ok()?;
    let mut end = 0;
    for name in below_root.split(|byte| *byte == b'/') {
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        end += 1 + name.len();
        let kind = if end == path.len() { FileType::RegularFile } else { FileType::Directory };
        match check(checked.set(&[path.get(..end)?])?, kind) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Some(TrustedFile::Missing),
            Err(_) => return None,
        }
    }
    let flags =
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    // `ManuallyDrop`, since the drop of a descriptor calls the C library.
    let opened = open(checked.as_c_str()?, flags, Mode::empty()).map(ManuallyDrop::new);
    let Ok(file) = opened else { return None };
    let text = read_whole(file.as_fd(), buffer);
    close(file.as_raw_fd());
    text.map(TrustedFile::Text)
}

/// Reads a regular file that is smaller than the buffer.
fn read_whole<'a>(file: BorrowedFd<'_>, buffer: &'a mut FileBuffer) -> Option<&'a [u8]> {
    let stat = fstat(file).ok()?;
    let (text, rest) = read(file, buffer.as_mut_slice()).ok()?;
    let is_whole = u64::try_from(stat.st_size) == Ok(text.len() as u64) && !rest.is_empty();
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_regular && is_whole).then_some(text)
}

/// Checks that a component of a path has this type and that only root or our user can change it.
fn check(path: &CStr, kind: FileType) -> Result<(), Errno> {
    let Stat { st_mode, st_uid, .. } = lstat(path)?;
    let is_ours = st_uid == 0 || st_uid == geteuid().as_raw();
    let is_sticky = kind == FileType::Directory && st_mode & 0o1000 != 0;
    let is_private = st_mode & 0o022 == 0 || is_sticky;
    if FileType::from_raw_mode(st_mode) == kind && is_ours && is_private {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink};

    fn check(path: &str, expected: Option<TrustedFile<'_>>) {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        assert_eq!(read_trusted(path.as_bytes(), &mut buffer, |_| {}), expected, "{path}");
    }

    #[test]
    fn a_plain_trusted_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let mode = |name: &str, mode| {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::write(path("f"), "text").unwrap();
        fs::write(path("fits"), [b'x'; (16 << 10) - 1]).unwrap();
        fs::write(path("large"), [b'x'; 16 << 10]).unwrap();
        fs::write(path("empty"), "").unwrap();
        symlink("f", path("link")).unwrap();
        for name in ["d", "open"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(&format!("{name}/f")), "text").unwrap();
        }
        symlink("d", path("to")).unwrap();
        check(&path("f"), Some(TrustedFile::Text(b"text")));
        check(&path("d/f"), Some(TrustedFile::Text(b"text")));
        check(&path("empty"), Some(TrustedFile::Text(b"")));
        check(&path("fits"), Some(TrustedFile::Text(&[b'x'; (16 << 10) - 1])));
        check(&path("missing"), Some(TrustedFile::Missing));
        check(&path("missing/f"), Some(TrustedFile::Missing));
        mode("open", 0o1777);
        check(&path("open/f"), Some(TrustedFile::Text(b"text")));
        mode("open", 0o777);
        mode("d/f", 0o664);
        for other in ["large", "link", "to/f", "d", "d/../f", "./f", "d//f", "f/", "f/x"] {
            check(&path(other), None);
        }
        check(&path("open/f"), None);
        check(&path("open/missing"), None);
        check(&path("d/f"), None);
        check("/", None);
        check("relative", None);
        check("", None);
        check("/dev/null", None);
    }
}
