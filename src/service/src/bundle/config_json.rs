//! The file `config.json` of a bundle: read through the directory descriptor that the wrapper
//! passed, and replaced atomically. A symbolic link is followed for reading, as runtimes do, and
//! replaced by a regular file. Its target is not changed, and the link can be restored.
//!
//! The content is not interpreted here.

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
    time::Duration,
};

/// Maximum size of a `config.json` in bytes. Real ones have some 10 to 100 KiB.
pub const MAX_CONFIG_SIZE: u64 = 16 << 20;

/// Time limit of reading a `config.json`. A runtime would wait without a limit, but `nrid` serves
/// other containers, too.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Directory and file name of a `config.json`.
#[derive(Debug)]
pub struct Bundle {
    dir: OwnedFd,
    path: PathBuf,
    name: OsString,
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
    /// The file cannot be replaced, and is unchanged.
    #[error("cannot replace {0}: {1}")]
    Replace(PathBuf, #[source] io::Error),
}

impl Bundle {
    /// Returns the bundle in the directory `dir`, with the file `config` (default: `config.json`).
    ///
    /// # Errors
    /// `config` is in another directory, which cannot be opened.
    pub fn new(dir: OwnedFd, path: &Path, config: Option<&Path>) -> Result<Self, BundleError> {
        let config = config.unwrap_or(Path::new("config.json"));
        let name = config.file_name().unwrap_or(config.as_os_str()).to_owned();
        match config.parent().filter(|p| !p.as_os_str().is_empty()) {
            None => Ok(Self { dir, path: path.to_owned(), name }),
            Some(parent) => {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(&dir, parent, flags, Mode::empty())
                    .map_err(|e| BundleError::Read(path.join(config), e.into()))?;
                Ok(Self { dir: inner, path: path.join(parent), name })
            }
        }
    }

    /// Opens the directory by its path, for a bundle that is known already.
    ///
    /// # Errors
    /// The directory does not exist (any more).
    pub fn open(path: &Path, name: &str) -> Result<Self, BundleError> {
        let dir = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| BundleError::Read(path.to_owned(), e.into()))?;
        Ok(Self { dir, path: path.to_owned(), name: name.into() })
    }

    /// Directory of `config.json`.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Name of `config.json`.
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Path of `config.json`, for messages.
    pub fn file(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Device and inode of the directory, which identify it independently of its path.
    ///
    /// # Errors
    /// The file system fails.
    pub fn identity(&self) -> Result<(u64, u64), BundleError> {
        let stat = rustix::fs::fstat(&self.dir)
            .map_err(|e| BundleError::Read(self.path.clone(), e.into()))?;
        Ok((stat.st_dev, stat.st_ino))
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

    /// Reads `config.json` with a time limit, without blocking other requests if its file system
    /// hangs.
    ///
    /// # Errors
    /// As for [`Bundle::read`], or the time limit is reached.
    pub async fn read_with_timeout(self) -> Result<(Self, Found), BundleError> {
        let file = self.file();
        let reading = tokio::task::spawn_blocking(move || self.read().map(|found| (self, found)));
        match tokio::time::timeout(READ_TIMEOUT, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(e)) => Err(BundleError::Read(file, io::Error::other(e))),
            Err(_) => Err(BundleError::Hangs(file)),
        }
    }

    fn link(&self) -> io::Result<Option<Link>> {
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
    /// A step fails, or the file has changed since it was read: the engine may have given up the
    /// container, and may be about to create the next one. Then the present `config.json` stays,
    /// and no temporary file is left.
    pub fn replace(&self, bytes: &[u8], found: &Found) -> Result<(), BundleError> {
        self.replace_found(found, |temporary| self.write_new(temporary, bytes, found))
    }

    /// Replaces the `config.json` that was read by the symbolic link that was there originally.
    ///
    /// # Errors
    /// As for [`Bundle::replace`].
    pub fn restore_link(&self, link: &Link, found: &Found) -> Result<(), BundleError> {
        self.replace_found(found, |temporary| self.write_link(temporary, link))
    }

    /// Restores the engine's `config.json` or link, if the present file has the digest `written`.
    /// The engine does not wait for this call, and may write another `config.json` at the same
    /// time; that one stays.
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
        let make = |temporary: &OsString| match link {
            Some(link) => self.write_link(temporary, link),
            None => self.write_new(temporary, original, found),
        };
        self.replace_if(
            make,
            |entry| matches!(entry, Entry::File(bytes) if digest(bytes) == written),
        )
        .map(drop)
    }

    fn replace_found(
        &self,
        found: &Found,
        make: impl FnOnce(&OsString) -> io::Result<()>,
    ) -> Result<(), BundleError> {
        let is_found = |entry: &Entry| match (entry, &found.link) {
            (Entry::File(bytes), None) => *bytes == found.bytes,
            (Entry::Link(target), Some(link)) => *target == link.target,
            _ => false,
        };
        match self.replace_if(make, is_found)? {
            true => Ok(()),
            false => Err(BundleError::Changed(self.file())),
        }
    }

    /// Replaces `config.json` by a new file, if the present one is as expected. Returns whether it
    /// was.
    fn replace_if(
        &self,
        make: impl FnOnce(&OsString) -> io::Result<()>,
        is_expected: impl FnOnce(&Entry) -> bool,
    ) -> Result<bool, BundleError> {
        let temporary = self.temporary();
        make(&temporary).and_then(|()| self.exchange(&temporary, is_expected)).map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            BundleError::Replace(self.file(), e)
        })
    }

    /// Exchanges the new file with `config.json`, and exchanges them back if the old file is not as
    /// expected. A check before a plain rename would miss a file that the engine writes in between.
    /// An engine that has opened the old file for writing has truncated it, which the check shows,
    /// and an engine that renames does so before or after the exchange. The only gap is within the
    /// engine's `open`, between lookup and truncation.
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
                    false => self.sweep(),
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
                // The temporary file must stay: it is the engine's.
                let file = self.path.join(temporary);
                tracing::error!(
                    file = %file.display(),
                    %error,
                    "cannot put back the engine's config.json, it is now in `file`"
                );
                return Ok(false);
            }
        }
        self.sweep();
        Ok(is_expected)
    }

    /// Reads the file or link with this name.
    fn read_entry(&self, name: &OsString) -> io::Result<Entry> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Ok(fd) => {
                let mut bytes = Vec::new();
                File::from(fd).take(MAX_CONFIG_SIZE + 1).read_to_end(&mut bytes)?;
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
        self.sweep();
        rustix::fs::symlinkat(&link.target, &self.dir, name)?;
        let (uid, gid) = (Uid::from_raw(link.owner.0), Gid::from_raw(link.owner.1));
        rustix::fs::chownat(&self.dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Checks that `config.json` is a regular file or a link now: no engine writes a directory, a
    /// device or a pipe there, so those stay.
    fn check_replaceable(&self) -> io::Result<()> {
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(now.st_mode) {
            FileType::RegularFile | FileType::Symlink => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Removes the temporary file of an `nrid` that was killed.
    pub fn sweep(&self) {
        let swept = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::empty());
        // Another process with access to the directory may have put a directory there.
        if swept == Err(Errno::ISDIR) {
            let _ = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::REMOVEDIR);
        }
    }

    /// Name of the temporary file. One name is enough, because only the holder of the bundle lock
    /// writes.
    fn temporary(&self) -> OsString {
        OsString::from(format!(".{}.nri", self.name()))
    }

    fn write_new(&self, name: &OsString, bytes: &[u8], like: &Found) -> io::Result<()> {
        self.check_replaceable()?;
        self.sweep();
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
