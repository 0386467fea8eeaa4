//! What a call of the wrapper needs of the configuration. `nrid` publishes it in a file for each
//! configuration file, so that calls need not read, check and parse the configuration.
//!
//! The file begins with the circumstances in which it applies. It applies to root of the host only:
//! what other users configure is theirs, and root of a user namespace is one of them.
//!
//! The wrapper follows the file only if root alone can change it, and if the format, the path of
//! the configuration, the mount namespace and, for events and `exec`, the user and the user
//! namespace are those of the call. Otherwise it makes the same settings from the configuration
//! file. Break-glass and variables of the environment are no part of the file: each call that they
//! concern looks at them.
//! A crash or an idle end of `nrid` leaves the file; `nrictl stop` and a boot remove it.

use crate::digest::digest;
use nri_config::{NamedRuntime, RuntimeSettings};
use nri_trust::Owners;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, open, stat, statx},
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::DirBuilderExt},
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
    #[serde(with = "Runtimes")]
    pub runtime: RuntimeSettings,
}

/// How [`RuntimeSettings`] are published: as they are, without the checks and forms of the
/// configuration.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RuntimeSettings")]
struct Runtimes {
    path: Option<PathBuf>,
    candidates: Vec<PathBuf>,
    names: BTreeMap<String, NamedRuntime>,
}

/// Shortest time for which callers wait for `nrid`: that of kubelet for containerd and CRI-O.
const REPLY_LIMIT: Duration = Duration::from_secs(120);

/// Returns the time for which wrapper and hook wait for the reply that their verb depends on, which
/// bounds what `nrid` may take for all plugins together. `request_timeout` is the longest time
/// limit of a request to a plugin: there is time for twenty of them, one after the other.
pub fn reply_limit(request_timeout: Duration) -> Duration {
    REPLY_LIMIT.max(request_timeout.saturating_mul(20))
}

/// Directory of the files, the same for all: a call does not know yet whether the configuration
/// names another state directory.
const DIRECTORY: &str = "/run/nri-container-runtime/wrapper";

/// Version of the format.
const FORMAT: u32 = 2;

/// Ids of mounts: since Linux 6.8 (`STATX_MNT_ID_UNIQUE`), none is used again.
const MOUNT_IDS: StatxFlags = StatxFlags::MNT_ID.union(StatxFlags::from_bits_retain(0x4000));

/// Maximum size of a file, many times that of usual ones.
const LIMIT: usize = 64 << 10;

/// A file: settings, and when they apply.
#[derive(Serialize, Deserialize)]
struct Published {
    format: u32,
    /// The configuration file, absolute: the one that callers name, whether it exists or not.
    config: PathBuf,
    /// Id of the mount through which the file was seen: a mount belongs to one namespace, in which
    /// paths are those that `nrid` has seen.
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
    [DIRECTORY, "/", &digest(config.as_os_str().as_encoded_bytes())].concat().into()
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
        let new = file.with_extension("new");
        let mut opened = File::create(&new)?;
        let (_, mount) = statx_with_mount(&opened)
            .ok_or_else(|| io::Error::other("the mount with this file is not known"))?;
        let published = Published {
            format: FORMAT,
            config: config.to_owned(),
            mount,
            user_namespace: user_namespace()?,
            settings: self.clone(),
        };
        let mut bytes = vec![0; LIMIT];
        let written = postcard::to_slice(&published, &mut bytes).map_err(io::Error::other)?;
        opened.write_all(written)?;
        fs::rename(new, file)
    }
}

/// Settings that are published for calls with one configuration file.
#[derive(Debug)]
pub struct PublishedSettings {
    user_namespace: u64,
    settings: CallSettings,
}

impl PublishedSettings {
    /// Reads what is published for an absolute path of a configuration file. Returns `None` if that
    /// does not apply to this process.
    pub fn read(config: &Path) -> Option<Self> {
        let (text, mount) = read(&published_file(config))?;
        let published: Published = postcard::from_bytes(&text).ok()?;
        let applies = published.format == FORMAT
            // Not compared as paths, for which `/./` is `/`.
            && published.config.as_os_str() == config.as_os_str()
            && published.mount == mount;
        let Published { user_namespace, settings, .. } = published;
        applies.then_some(Self { user_namespace, settings })
    }

    /// The real runtimes, which is all that most calls need. They depend neither on the user nor on
    /// the user namespace: only root of the host, in any namespace, can read the file.
    pub fn runtime(&self) -> &RuntimeSettings {
        &self.settings.runtime
    }

    /// All settings; `None` for another user and in another user namespace, which have another
    /// state directory.
    pub fn all(self) -> Option<CallSettings> {
        let is_same = || user_namespace().is_ok_and(|namespace| namespace == self.user_namespace);
        (geteuid().is_root() && is_same()).then_some(self.settings)
    }
}

/// Returns the inode of the user namespace of this process.
fn user_namespace() -> io::Result<u64> {
    Ok(stat("/proc/self/ns/user")?.st_ino)
}

/// Reads a file that only root can change, up to the limit of the size. Returns its content and the
/// id of the mount through which it was seen. Returns `None` also if the kernel has no such ids.
///
/// Its directory is in `/run`, where only root makes files, and was checked when it was made.
fn read(path: &Path) -> Option<(Vec<u8>, u64)> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = open(path, flags | OFlags::RDONLY, Mode::empty()).ok()?;
    let (found, mount) = statx_with_mount(&fd)?;
    let size = usize::try_from(found.stx_size).ok().filter(|size| *size <= LIMIT)?;
    let mode = found.stx_mode.into();
    let is_trusted = found.stx_uid == 0 && mode & 0o022 == 0;
    if FileType::from_raw_mode(mode) != FileType::RegularFile || !is_trusted {
        return None;
    }
    let mut text = vec![0; size];
    let length = rustix::io::read(fd, &mut text).ok()?;
    text.truncate(length);
    Some((text, mount))
}

/// Returns what is known of a file, and the id of the mount through which it was opened; `None` if
/// the kernel has no such ids.
fn statx_with_mount(file: impl AsFd) -> Option<(Statx, u64)> {
    let requested = StatxFlags::BASIC_STATS | MOUNT_IDS;
    let found = statx(file, "", AtFlags::EMPTY_PATH, requested).ok()?;
    (found.stx_mask & MOUNT_IDS.bits() != 0).then_some((found, found.stx_mnt_id))
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
        let check = |name: &str, expected: Option<&str>, why: &str| {
            let text = read(&path(name)).map(|(text, _)| String::from_utf8(text).unwrap());
            assert_eq!(text.as_deref(), expected, "{why}");
        };
        check("f", None, "no file");
        fs::write(path("f"), "text").unwrap();
        check("f", Some("text"), "the usual file");
        for bits in [0o664, 0o646] {
            mode("f", bits);
            check("f", None, "a file that others can write");
        }
        mode("f", 0o600);
        symlink("f", path("link")).unwrap();
        check("link", None, "a link to the file");
        chown(path("f"), Some(4711), None).unwrap();
        check("f", None, "a file of another user");
        chown(path("f"), Some(0), None).unwrap();
        check("f", Some("text"), "as at first");
        fs::write(path("f"), vec![b'x'; LIMIT + 1]).unwrap();
        check("f", None, "a file that is too large");
        fs::remove_file(path("f")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("f"), Mode::from_raw_mode(0o600)).unwrap();
        check("f", None, "a pipe");
    }
}
