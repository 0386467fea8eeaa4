//! The file `config.json` of a bundle: read through the directory descriptor that the wrapper
//! passed, and replaced atomically. A symbolic link is followed for reading, as runtimes do, and
//! replaced by a regular file. Its target is not changed, and the link can be restored.
//!
//! The content is not interpreted here.

use crate::host::{
    file_access::{FileSystem, FileSystemHangs},
    near_files,
};
pub use nri_host::sha256 as digest;
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Maximum size of a `config.json` in bytes. Real ones have some 10 to 100 KiB.
pub const MAX_CONFIG_SIZE: u64 = 16 << 20;

/// Directory and file name of a `config.json`.
#[derive(Debug)]
pub struct Bundle {
    dir: OwnedFd,
    path: PathBuf,
    name: OsString,
    /// Device and inode of the directory.
    identity: (u64, u64),
    effect: Effect,
}

/// Whether a replacement of `config.json` takes effect. Decided once: by the replacement itself, or
/// by its time limit, after which the creation is refused and must not change the bundle.
#[derive(Debug, Default)]
pub struct Effect(OnceLock<bool>);

impl Effect {
    /// Decides that the replacement takes effect, unless it was given up before. Returns whether it
    /// takes effect.
    pub fn take(&self) -> bool {
        *self.0.get_or_init(|| true)
    }

    /// Decides that the replacement has no effect, unless it took effect before. Returns whether it
    /// is given up.
    pub fn give_up(&self) -> bool {
        !*self.0.get_or_init(|| false)
    }

    /// Whether the replacement was given up.
    pub fn is_given_up(&self) -> bool {
        self.0.get() == Some(&false)
    }
}

/// A `config.json` that was read.
#[derive(Debug)]
pub struct Found {
    /// Content.
    pub bytes: Vec<u8>,
    /// The symbolic link, if `config.json` is one.
    pub link: Option<Link>,
    meta: Metadata,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Path that the link points to.
    pub target: String,
    /// Owner and group of the link.
    pub owner: (u32, u32),
}

/// The present file or link at a name.
enum Entry {
    /// A regular file, with its content.
    File(Vec<u8>),
    /// A symbolic link, with its target.
    Link(String),
}

/// Failure to read or replace a `config.json`.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The path is not a regular file.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// The read did not end in time.
    #[error("cannot read {0}: its file system hangs")]
    Hangs(PathBuf),
    /// The file is too large.
    #[error("{0} is larger than {MAX_CONFIG_SIZE} bytes")]
    TooLarge(PathBuf),
    /// The file has changed since it was read for the request to plugins.
    #[error("{0} was changed during the request to plugins: create the container again")]
    Changed(PathBuf),
    /// The file cannot be replaced, and has not been changed.
    #[error("cannot replace {0}: {1}")]
    Replace(PathBuf, #[source] io::Error),
}

impl Bundle {
    /// Returns the bundle in the directory `dir`, with the file `config` (default: `config.json`).
    ///
    /// # Errors
    /// `config` is in another directory, which cannot be opened, or the file system fails.
    pub fn new(dir: OwnedFd, path: &Path, config: Option<&Path>) -> Result<Self, BundleError> {
        let config = config.unwrap_or(Path::new("config.json"));
        let name = config.file_name().unwrap_or(config.as_os_str()).to_owned();
        match config.parent().filter(|p| !p.as_os_str().is_empty()) {
            None => Self::with_identity(dir, path.to_owned(), name),
            Some(parent) => {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(&dir, parent, flags, Mode::empty())
                    .map_err(|e| BundleError::Read(path.join(config), e.into()))?;
                Self::with_identity(inner, path.join(parent), name)
            }
        }
    }

    /// Opens the directory by its path.
    ///
    /// # Errors
    /// The directory does not exist.
    #[cfg(test)]
    pub fn open(path: &Path, name: &str) -> Result<Self, BundleError> {
        let dir = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| BundleError::Read(path.to_owned(), e.into()))?;
        Self::with_identity(dir, path.to_owned(), name.into())
    }

    fn with_identity(dir: OwnedFd, path: PathBuf, name: OsString) -> Result<Self, BundleError> {
        let stat =
            rustix::fs::fstat(&dir).map_err(|e| BundleError::Read(path.clone(), e.into()))?;
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { dir, path, name, identity, effect: Effect::default() })
    }

    /// Returns the path of the directory of `config.json`.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Returns the file name of `config.json`.
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Returns the path of `config.json`, for messages.
    pub fn file(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Returns device and inode of the directory, which identify it whatever its path is.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Returns the file system of the directory.
    pub fn file_system(&self) -> FileSystem {
        FileSystem::of(&self.dir)
    }

    /// Whether the directory is on the file system of the state directory, and therefore needs no
    /// thread that may hang.
    pub fn is_near(&self) -> bool {
        near_files::is_near(&self.dir)
    }

    /// Whether the replacement of `config.json` takes effect.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Reads `config.json`.
    ///
    /// # Errors
    /// The file is missing, unreadable, too large, or not a regular file.
    pub fn read(&self) -> Result<Found, BundleError> {
        let failed = |e: io::Error| BundleError::Read(self.file(), e);
        // O_NONBLOCK, so that opening a FIFO does not block.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())
            .map_err(|e| failed(e.into()))?;
        let file = File::from(fd);
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(BundleError::NotAFile(self.file()));
        }
        let mut bytes = Vec::with_capacity(meta.len().min(MAX_CONFIG_SIZE) as usize + 1);
        file.take(MAX_CONFIG_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_CONFIG_SIZE {
            return Err(BundleError::TooLarge(self.file()));
        }
        Ok(Found { bytes, link: self.link().map_err(failed)?, meta })
    }

    /// Returns the symbolic link at the path of `config.json`, if it is one.
    ///
    /// # Errors
    /// There is no file, or it cannot be read.
    pub fn link(&self) -> io::Result<Option<Link>> {
        let meta = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(meta.st_mode) != FileType::Symlink {
            return Ok(None);
        }
        let target = rustix::fs::readlinkat(&self.dir, &self.name, Vec::new())?;
        let target =
            target.into_string().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(Some(Link { target, owner: (meta.st_uid, meta.st_gid) }))
    }

    /// Replaces the `config.json` that was read by a new file with the same owner and mode.
    ///
    /// The new file is not synced to disk: a bundle does not outlive a crash of its host.
    ///
    /// # Errors
    /// A step fails, or the file has changed since it was read: the engine may have abandoned this
    /// creation, and be about to create the next container from the bundle. Then the present
    /// `config.json` stays, and no temporary file is left.
    pub fn replace(&self, bytes: &[u8], found: &Found) -> Result<(), BundleError> {
        let write_new = |temporary: &OsString| self.write_new(temporary, bytes, found);
        let is_new = |entry: &Entry| matches!(entry, Entry::File(present) if present == bytes);
        self.replace_found(found, write_new, is_new)
    }

    /// Replaces the `config.json` that was read by the engine's original symbolic link.
    ///
    /// # Errors
    /// Those of [`Bundle::replace`].
    pub fn restore_link(&self, link: &Link, found: &Found) -> Result<(), BundleError> {
        let write_new = |temporary: &OsString| self.write_link(temporary, link);
        let is_new = |entry: &Entry| matches!(entry, Entry::Link(to) if *to == link.target);
        self.replace_found(found, write_new, is_new)
    }

    /// Restores the engine's `config.json` or link, if the present file has the digest `written`.
    /// The engine does not wait for this call, and may write a new `config.json` at the same time.
    /// Such a new file is not replaced.
    ///
    /// # Errors
    /// A step fails. Then the present `config.json` stays, and no temporary file is left.
    pub fn restore(
        &self,
        original: &[u8],
        link: Option<&Link>,
        found: &Found,
        written: &str,
    ) -> Result<(), BundleError> {
        let write_temporary = |temporary: &OsString| match link {
            Some(link) => self.write_link(temporary, link),
            None => self.write_new(temporary, original, found),
        };
        self.replace_if(
            write_temporary,
            |entry| matches!(entry, Entry::File(bytes) if digest(bytes) == written),
        )
        .map(drop)
    }

    fn replace_found(
        &self,
        found: &Found,
        write_new: impl FnOnce(&OsString) -> io::Result<()>,
        is_new: impl FnOnce(&Entry) -> bool,
    ) -> Result<(), BundleError> {
        let has_hung = || match self.effect.is_given_up() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, FileSystemHangs)),
            false => Ok(()),
        };
        let is_found = |entry: &Entry| match (entry, &found.link) {
            (Entry::File(bytes), None) => *bytes == found.bytes,
            (Entry::Link(target), Some(link)) => *target == link.target,
            _ => false,
        };
        let write_new = |temporary: &OsString| write_new(temporary).and_then(|()| has_hung());
        if !self.replace_if(write_new, is_found)? {
            return Err(BundleError::Changed(self.file()));
        }
        if self.effect.take() {
            return Ok(());
        }
        // The creation has been refused meanwhile.
        let write_found = |temporary: &OsString| match &found.link {
            Some(link) => self.write_link(temporary, link),
            None => self.write_new(temporary, &found.bytes, found),
        };
        self.replace_if(write_found, is_new)?;
        has_hung().map_err(|e| BundleError::Replace(self.file(), e))
    }

    /// Replaces `config.json` by the file that `write_temporary` makes, if the present file or link
    /// is as expected. Returns whether `config.json` was replaced.
    fn replace_if(
        &self,
        write_temporary: impl FnOnce(&OsString) -> io::Result<()>,
        is_expected: impl FnOnce(&Entry) -> bool,
    ) -> Result<bool, BundleError> {
        let temporary = self.temporary();
        let result = write_temporary(&temporary);
        result.and_then(|()| self.exchange(&temporary, is_expected)).map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            BundleError::Replace(self.file(), e)
        })
    }

    /// Exchanges the new file with `config.json`, and exchanges them back if the old file is not as
    /// expected. A check before a plain rename would miss a file that the engine writes in between.
    /// The check after the exchange detects an engine that has opened the old file for writing,
    /// because `open` has truncated the file; an engine that renames does so before or after the
    /// exchange. The only gap is within the engine's `open`, between lookup and truncation.
    fn exchange(
        &self,
        temporary: &OsString,
        is_expected: impl FnOnce(&Entry) -> bool,
    ) -> io::Result<bool> {
        let swap = || {
            rustix::fs::renameat_with(
                &self.dir,
                temporary,
                &self.dir,
                &self.name,
                RenameFlags::EXCHANGE,
            )
        };
        match swap() {
            // The file system does not support the exchange.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let is_expected =
                    self.read_entry(&self.name).is_ok_and(|entry| is_expected(&entry));
                match is_expected {
                    true => rustix::fs::renameat(&self.dir, temporary, &self.dir, &self.name)?,
                    false => self.remove_temporary(),
                }
                return Ok(is_expected);
            }
            swapped => swapped?,
        }
        let is_expected = self.read_entry(temporary).is_ok_and(|entry| is_expected(&entry));
        if !is_expected {
            let back = match swap() {
                // The new file has been removed meanwhile.
                Err(Errno::NOENT) => {
                    let flags = RenameFlags::NOREPLACE;
                    rustix::fs::renameat_with(&self.dir, temporary, &self.dir, &self.name, flags)
                }
                back => back,
            };
            if let Err(error) = back {
                // The temporary file must stay: it is the engine's config.json.
                let file = self.path.join(temporary);
                tracing::error!(
                    file = %file.display(),
                    %error,
                    "cannot restore the engine's config.json, which now has the path in `file`"
                );
                return Ok(false);
            }
        }
        self.remove_temporary();
        Ok(is_expected)
    }

    /// Reads the file or link with this name.
    fn read_entry(&self, name: &OsString) -> io::Result<Entry> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                // Without the capacity, the file is read in pieces that begin with 32 bytes.
                let size = file.metadata()?.len().min(MAX_CONFIG_SIZE);
                let mut bytes = Vec::with_capacity(size as usize + 1);
                file.take(MAX_CONFIG_SIZE + 1).read_to_end(&mut bytes)?;
                Ok(Entry::File(bytes))
            }
            Err(Errno::LOOP) => {
                let target = rustix::fs::readlinkat(&self.dir, name, Vec::new())?;
                Ok(Entry::Link(target.to_string_lossy().into_owned()))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn write_link(&self, name: &OsString, link: &Link) -> io::Result<()> {
        self.check_replaceable()?;
        self.remove_temporary();
        rustix::fs::symlinkat(&link.target, &self.dir, name)?;
        let (uid, gid) = (Uid::from_raw(link.owner.0), Gid::from_raw(link.owner.1));
        rustix::fs::chownat(&self.dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Checks that `config.json` is a regular file or a link now. No engine writes a directory, a
    /// device or a pipe at this path, so `nrid` does not replace those.
    fn check_replaceable(&self) -> io::Result<()> {
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(now.st_mode) {
            FileType::RegularFile | FileType::Symlink => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Removes the temporary file, which an `nrid` that was killed may have left.
    pub fn remove_temporary(&self) {
        let removed = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::empty());
        // Another process with access to the directory may have put a directory there.
        if removed == Err(Errno::ISDIR) {
            let _ = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::REMOVEDIR);
        }
    }

    /// Returns the name of the temporary file. One name per `config.json` is enough, because only
    /// the holder of the bundle lock writes it.
    fn temporary(&self) -> OsString {
        OsString::from(format!(".{}.nri", self.name()))
    }

    fn write_new(&self, name: &OsString, bytes: &[u8], like: &Found) -> io::Result<()> {
        self.check_replaceable()?;
        self.remove_temporary();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        let (uid, gid) = (Uid::from_raw(like.meta.uid()), Gid::from_raw(like.meta.gid()));
        rustix::fs::fchown(fd.as_fd(), Some(uid), Some(gid))?;
        rustix::fs::fchmod(fd.as_fd(), Mode::from_raw_mode(like.meta.mode() & 0o777))?;
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        file.flush()
    }
}

#[cfg(test)]
mod tests;
