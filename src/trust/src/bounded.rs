//! Reads files that administrators or engines write: only regular files, up to a size limit.
//!
//! A path may lead to a pipe, which blocks a read, to a device without an end, such as `/dev/zero`,
//! or to a file that would fill the memory.

use rustix::fs::{OFlags, major, minor};
use std::{
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Limit of a configuration file in bytes, many times the size of real files.
pub const MAX_CONFIG_FILE: u64 = 1 << 20;

/// Major and minor device number of `/dev/null`. A link to it masks a configuration file.
const NULL: (u32, u32) = (1, 3);

/// Reads a regular file of at most `limit` bytes. `/dev/null` counts as an empty file.
///
/// # Errors
/// The file cannot be read, is not a regular file ([`ErrorKind::InvalidInput`]), or is too large
/// ([`ErrorKind::FileTooLarge`]). The error does not name the path.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // The file is checked before it is opened, since opening a device may have an effect.
    check(&fs::metadata(path)?, limit)?;
    // The path may lead to another file now. O_NONBLOCK: opening a pipe does not block.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    check(&file.metadata()?, limit)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

/// Reads a text file, like [`read_regular`].
///
/// # Errors
/// The errors of [`read_regular`], or the file is not UTF-8 ([`ErrorKind::InvalidData`]).
pub fn read_regular_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, limit)?)
        .map_err(|e| io::Error::new(ErrorKind::InvalidData, e.utf8_error()))
}

fn check(meta: &Metadata, limit: u64) -> io::Result<()> {
    let kind = meta.file_type();
    let is_null = kind.is_char_device() && (major(meta.rdev()), minor(meta.rdev())) == NULL;
    if !kind.is_file() && !is_null {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    if meta.len() > limit { Err(too_large(limit)) } else { Ok(()) }
}

fn too_large(limit: u64) -> io::Error {
    let text = format!("the file is larger than the limit of {limit} bytes");
    io::Error::new(ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("fits"), "1234").unwrap();
        fs::write(path("large"), "12345").unwrap();
        fs::write(path("binary"), b"\xff").unwrap();
        let huge = File::create(path("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        fs::create_dir(path("dir")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), mode).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for name in ["zero", "null"] {
            symlink(format!("/dev/{name}"), path(name)).unwrap();
        }
        let too_large = Err("the file is larger than the limit of 4 bytes");
        for (name, expected) in [
            ("fits", Ok("1234")),
            ("null", Ok("")),
            ("large", too_large),
            ("huge", too_large),
            ("dir", Err("not a regular file")),
            ("pipe", Err("not a regular file")),
            ("socket", Err("not a regular file")),
            ("zero", Err("not a regular file")),
            ("binary", Err("invalid utf-8 sequence of 1 bytes from index 0")),
            ("missing", Err("No such file or directory (os error 2)")),
        ] {
            let read = read_regular_text(&path(name), 4).map_err(|e| e.to_string());
            assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{name}");
        }
        // A file of /proc reports no size, and is read up to its end.
        assert!(read_regular_text(Path::new("/proc/self/comm"), 64).unwrap().ends_with('\n'));
    }
}
