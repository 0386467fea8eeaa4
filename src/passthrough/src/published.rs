//! CallSettings that `nrid` has published: a file for each configuration file, with what calls with
//! that configuration need ([`crate::settings`]), so that they need not read it.
//!
//! The file begins with the circumstances in which it applies. It applies to root of the host only:
//! what other users configure is theirs, and root of a user namespace is one of them.

use crate::{
    digest, environment,
    path_buffer::PathBuffer,
    settings::{self, CallSettings},
};
use core::{
    ffi::CStr,
    mem::{ManuallyDrop, MaybeUninit},
};
use rustix::{
    fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    fs::{FileType, Mode, OFlags, fstat, open, openat, stat},
    io::read as read_fd,
    process::geteuid,
};

/// Directory of the files. Not in the state directory: the configuration names that.
pub const DIRECTORY: &CStr = c"/run/nri-container-runtime/wrapper";

/// Space for a file, many times the size of usual ones. Larger ones are not followed.
pub type FileBuffer = [MaybeUninit<u8>; 16 << 10];

/// Version of the entries.
const FORMAT: (&str, &[u8]) = ("format", b"1");
/// The configuration file, absolute: the one that callers name, whether it exists or not.
const CONFIG: &str = "config";
/// Namespaces in which paths and users are those that `nrid` has seen: key and link.
const NAMESPACES: [(&str, &CStr); 2] =
    [("mount_namespace", c"/proc/self/ns/mnt"), ("user_namespace", c"/proc/self/ns/user")];

/// Returns the name of the file for a configuration file.
pub fn file_name(config: &[u8]) -> [u8; 16] {
    digest::hexadecimal(digest::of(config))
}

/// Appends the entries before the settings: the circumstances of this process. Returns `None` if
/// they are not known.
pub fn put_circumstances(sink: &mut impl crate::json::ByteSink, config: &[u8]) -> Option<()> {
    settings::put(sink, FORMAT.0, &[FORMAT.1])?;
    settings::put(sink, CONFIG, &[config])?;
    for (key, link) in NAMESPACES {
        settings::put(sink, key, &[&namespace(link)?])?;
    }
    Some(())
}

/// Reads the settings for an absolute path of a configuration file. Returns `None` if none are
/// published that apply to this process. `close` closes a descriptor.
pub fn read<'a>(
    config: &[u8],
    buffer: &'a mut FileBuffer,
    close: fn(RawFd),
) -> Option<CallSettings<'a>> {
    if !geteuid().is_root() {
        return None;
    }
    let text = read_trusted(DIRECTORY, &file_name(config), buffer, close)?;
    let mut rest = without(text, FORMAT.0, FORMAT.1)?;
    rest = without(rest, CONFIG, config)?;
    for (key, link) in NAMESPACES {
        rest = without(rest, key, &namespace(link)?)?;
    }
    Some(CallSettings::new(rest))
}

/// Returns the text after its first entry, if that is this one.
fn without<'a>(text: &'a [u8], key: &str, value: &[u8]) -> Option<&'a [u8]> {
    environment::value(text, key)?.strip_prefix(value)?.strip_prefix(b"\0")
}

/// Returns the inode of a namespace of this process.
fn namespace(link: &CStr) -> Option<[u8; 16]> {
    stat(link).ok().map(|found| digest::hexadecimal(found.st_ino))
}

/// Reads a file that only root can change, and that is smaller than the buffer.
fn read_trusted<'a>(
    directory: &CStr,
    name: &[u8],
    buffer: &'a mut FileBuffer,
    close: fn(RawFd),
) -> Option<&'a [u8]> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let directory_flags = flags | OFlags::PATH | OFlags::DIRECTORY;
    // `ManuallyDrop`, since the drop of a descriptor calls the C library.
    let opened = open(directory, directory_flags, Mode::empty()).map(ManuallyDrop::new);
    let Ok(directory) = opened else { return None };
    let opened = is_of_root(&directory, FileType::Directory).and_then(|()| {
        let mut path: PathBuffer<32> = PathBuffer::default();
        let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        openat(&*directory, path.set(&[name])?, flags, Mode::empty()).map(ManuallyDrop::new).ok()
    });
    close(directory.as_raw_fd());
    let file = opened?;
    let read = is_of_root(&file, FileType::RegularFile)
        .and_then(|()| read_fd(file.as_fd(), buffer.as_mut_slice()).ok());
    close(file.as_raw_fd());
    let (text, rest) = read?;
    (!rest.is_empty()).then_some(&*text)
}

/// Whether a file is of this type, and only root can change it.
fn is_of_root(fd: &OwnedFd, kind: FileType) -> Option<()> {
    let found = fstat(fd).ok()?;
    let is_trusted = found.st_uid == 0 && found.st_mode & 0o022 == 0;
    (is_trusted && FileType::from_raw_mode(found.st_mode) == kind).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        ffi::CString,
        fs,
        os::unix::{
            ffi::OsStrExt,
            fs::{PermissionsExt, chown, symlink},
        },
    };

    #[test]
    fn only_a_file_that_root_alone_can_change_is_read() {
        if !geteuid().is_root() {
            println!("skipped: only root can make files of root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mode = |name: &str, mode| {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let check = |directory: &str, expected: Option<&str>, why: &str| {
            let directory = CString::new(path(directory).as_os_str().as_bytes()).unwrap();
            let mut buffer = [MaybeUninit::uninit(); _];
            // The descriptors stay open until the end of the test.
            let found = read_trusted(&directory, b"f", &mut buffer, |_| {});
            assert_eq!(found, expected.map(str::as_bytes), "{why}");
        };
        fs::create_dir(path("d")).unwrap();
        check("d", None, "no file");
        fs::write(path("d/f"), "text").unwrap();
        check("d", Some("text"), "the usual file");
        for bits in [0o664, 0o646] {
            mode("d/f", bits);
            check("d", None, "a file that others can write");
        }
        mode("d/f", 0o600);
        for bits in [0o775, 0o757, 0o1777] {
            mode("d", bits);
            check("d", None, "a directory that others can write");
        }
        mode("d", 0o700);
        symlink("d", path("link")).unwrap();
        check("link", None, "a link to the directory");
        fs::create_dir(path("e")).unwrap();
        symlink("../d/f", path("e/f")).unwrap();
        check("e", None, "a link to the file");
        for name in ["d/f", "d"] {
            chown(path(name), Some(4711), None).unwrap();
            check("d", None, "a file or directory of another user");
            chown(path(name), Some(0), None).unwrap();
        }
        check("d", Some("text"), "as at first");
        fs::write(path("d/f"), vec![b'x'; size_of::<FileBuffer>()]).unwrap();
        check("d", None, "a file that is too large");
        fs::remove_file(path("d/f")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("d/f"), Mode::from_raw_mode(0o600)).unwrap();
        check("d", None, "a pipe");
    }
}
