//! What a call of the wrapper needs of the configuration. `nrid` publishes it in a file for each
//! configuration file, so that calls need not read, check and parse the configuration.
//!
//! The file begins with the circumstances in which it applies. It applies to root of the host only:
//! what other users configure is theirs, and root of a user namespace is one of them.

use crate::digest::digest;
use nri_config::RuntimeSettings;
use nri_trust::Owners;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, fstat, open, openat, stat, statx},
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder},
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// What a call needs of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSettings {
    /// The state directory, absolute.
    pub state_dir: PathBuf,
    /// Whether NRI is disabled. Such settings are not published.
    #[serde(skip)]
    pub is_disabled: bool,
    /// Whether verbs proceed where `nrid` cannot be reached.
    pub passes_unreachable: bool,
    /// Time limit of a start of `nrid`.
    pub start_timeout: Duration,
    /// Longest time limit of a request to a plugin.
    pub request_timeout: Duration,
    /// The real runtimes.
    pub runtime: RuntimeSettings,
}

/// Directory of the files, the same for all: a call does not know yet whether the configuration
/// names another state directory.
const DIRECTORY: &str = "/run/nri-container-runtime/wrapper";

/// Version of the format.
const FORMAT: u32 = 1;

/// Ids of mounts: since Linux 6.8 (`STATX_MNT_ID_UNIQUE`), none is used again.
const MOUNT_IDS: StatxFlags = StatxFlags::MNT_ID.union(StatxFlags::from_bits_retain(0x4000));

/// Maximum size of a file, many times that of usual ones. Larger ones are not followed.
const LIMIT: usize = 64 << 10;

/// A file: settings, and when they apply.
#[derive(Serialize, Deserialize)]
struct Published {
    format: u32,
    /// The configuration file, absolute: the one that callers name, whether it exists or not.
    config: PathBuf,
    /// Id of the mount through which the directory was seen: a mount belongs to one namespace, in
    /// which paths are those that `nrid` has seen.
    mount: u64,
    /// Inode of the user namespace, in which users are those that `nrid` has seen.
    user_namespace: u64,
    settings: CallSettings,
}

/// Settings that could not be published.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", file.display())]
pub struct PublishError {
    file: PathBuf,
    #[source]
    source: io::Error,
}

/// Returns the path of the file with what is published for calls with this configuration file.
pub fn published_file(config: &Path) -> PathBuf {
    Path::new(DIRECTORY).join(file_name(config))
}

/// Returns the name of the file in its directory.
fn file_name(config: &Path) -> String {
    digest(config.as_os_str().as_encoded_bytes())
}

impl CallSettings {
    /// Publishes the settings for calls with this configuration file, in place of those that were
    /// published before. After an error, none are published, and none are while NRI is disabled: no
    /// call starts an `nrid` then, which could publish that it no longer is.
    ///
    /// # Errors
    /// The file cannot be written, or other users could change it.
    pub fn publish(&self, config: &Path) -> Result<(), PublishError> {
        let file = published_file(config);
        let written = if self.is_disabled { Ok(()) } else { self.write(&file, config) };
        if self.is_disabled || written.is_err() {
            // Settings of before would be followed.
            let _ = fs::remove_file(&file);
        }
        written.map_err(|source| PublishError { file, source })
    }

    fn write(&self, file: &Path, config: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(DIRECTORY)?;
        Owners::of_this_process().check(Path::new(DIRECTORY)).map_err(io::Error::other)?;
        let directory = Directory::open(Path::new(DIRECTORY))
            .ok_or_else(|| io::Error::other("the mount with this directory is not known"))?;
        let published = Published {
            format: FORMAT,
            config: config.to_owned(),
            mount: directory.mount,
            user_namespace: user_namespace()?,
            settings: self.clone(),
        };
        let text = serde_json::to_vec(&published)?;
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, file)
    }

    /// Reads the settings for an absolute path of a configuration file. Returns `None` if none are
    /// published that apply to this process.
    pub fn read(config: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let directory = Directory::open(Path::new(DIRECTORY))?;
        let text = directory.read(&file_name(config))?;
        let published: Published = serde_json::from_slice(&text).ok()?;
        let applies = published.format == FORMAT
            // Not compared as paths, for which `/./` is `/`.
            && published.config.as_os_str() == config.as_os_str()
            && published.mount == directory.mount
            && published.user_namespace == user_namespace().ok()?;
        applies.then_some(published.settings)
    }
}

/// Returns the inode of the user namespace of this process.
fn user_namespace() -> io::Result<u64> {
    Ok(stat("/proc/self/ns/user")?.st_ino)
}

/// A directory that only root can change.
struct Directory {
    fd: OwnedFd,
    mount: u64,
}

impl Directory {
    /// Opens the directory. Returns `None` if it does not exist, if others can change it, or if the
    /// kernel has no ids of mounts.
    fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::PATH | OFlags::DIRECTORY;
        let fd = open(path, flags, Mode::empty()).ok()?;
        let requested = StatxFlags::BASIC_STATS | MOUNT_IDS;
        let found = statx(&fd, "", AtFlags::EMPTY_PATH, requested).ok()?;
        let is_trusted = is_of_root(found.stx_uid, found.stx_mode.into());
        let has_mount = found.stx_mask & MOUNT_IDS.bits() != 0;
        (is_trusted && has_mount).then_some(Self { fd, mount: found.stx_mnt_id })
    }

    /// Reads a file that only root can change, up to the limit of the size.
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = openat(&self.fd, name, flags | OFlags::RDONLY, Mode::empty()).ok()?;
        let found = fstat(&fd).ok()?;
        let size = usize::try_from(found.st_size).ok().filter(|size| *size <= LIMIT)?;
        let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_regular || !is_of_root(found.st_uid, found.st_mode) {
            return None;
        }
        let mut text = vec![0; size];
        let length = rustix::io::read(fd, &mut text).ok()?;
        text.truncate(length);
        Some(text)
    }
}

/// Whether only root can change a file or directory.
fn is_of_root(uid: u32, mode: u32) -> bool {
    uid == 0 && mode & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

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
            let found = Directory::open(&path(directory)).and_then(|found| found.read("f"));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{why}");
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
        fs::write(path("d/f"), vec![b'x'; LIMIT + 1]).unwrap();
        check("d", None, "a file that is too large");
        fs::remove_file(path("d/f")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("d/f"), Mode::from_raw_mode(0o600)).unwrap();
        check("d", None, "a pipe");
    }
}
