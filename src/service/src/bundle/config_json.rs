//! The OCI document in its bundle: read through the directory that the wrapper passed, and replaced
//! atomically. A symbolic link is read as a runtime does, through it, and replaced by a file of the
//! bundle's own; what it leads to is not touched, and the link can be put back.
//!
//! What stands in the document is not this file's business.

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

/// Larger documents are refused; real ones have some 10 to 100 KiB.
pub const MAX_CONFIG_SIZE: u64 = 16 << 20;

/// How long reading one may take; a runtime would wait as long as it takes, but alone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A bundle's directory and the name of its document.
#[derive(Debug)]
pub struct Bundle {
    dir: OwnedFd,
    path: PathBuf,
    name: OsString,
}

/// A document as it was found.
#[derive(Debug)]
pub struct Found {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The symbolic link by which it was found.
    pub link: Option<Link>,
    meta: Metadata,
}

/// A symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Where it leads.
    pub target: String,
    /// Its owner and group.
    pub owner: (u32, u32),
}

/// What stood where a document is put.
enum Out {
    /// A file, with its bytes.
    Document(Vec<u8>),
    /// A symbolic link, with where it leads.
    Link(String),
}

/// What cannot be done with a document.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// It is not a file that we may replace.
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    /// It does not answer.
    #[error("cannot read {0}: its file system hangs")]
    Hangs(PathBuf),
    /// It is too large.
    #[error("{0} is larger than {MAX_CONFIG_SIZE} bytes")]
    TooLarge(PathBuf),
    /// It is not the one any more that plugins were asked about.
    #[error("{0} was changed while plugins were asked: create the container again")]
    Changed(PathBuf),
    /// It cannot be replaced; the old one still stands.
    #[error("cannot replace {0}: {1}")]
    Replace(PathBuf, #[source] io::Error),
}

impl Bundle {
    /// The document `config` (`config.json` if there is no other name) of the bundle whose
    /// directory is `dir`.
    ///
    /// # Errors
    /// A document outside the directory whose own directory cannot be opened.
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
    /// It is not there (any more).
    pub fn open(path: &Path, name: &str) -> Result<Self, BundleError> {
        let dir = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| BundleError::Read(path.to_owned(), e.into()))?;
        Ok(Self { dir, path: path.to_owned(), name: name.into() })
    }

    /// Directory of the document.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Name of the document.
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Path of the document, for messages.
    pub fn file(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Device and inode of the directory: who it is, whatever its path.
    ///
    /// # Errors
    /// The file system fails.
    pub fn identity(&self) -> Result<(u64, u64), BundleError> {
        let stat = rustix::fs::fstat(&self.dir)
            .map_err(|e| BundleError::Read(self.path.clone(), e.into()))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Reads the document.
    ///
    /// # Errors
    /// It is missing, unreadable, too large, or not a file.
    pub fn read(&self) -> Result<Found, BundleError> {
        let failed = |e: io::Error| BundleError::Read(self.file(), e);
        // O_NONBLOCK: a FIFO in its place must not hang us.
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

    /// The same without holding up other requests where the document's file system hangs.
    ///
    /// # Errors
    /// As [`Bundle::read`], and if it takes too long.
    pub async fn read_patiently(self) -> Result<(Self, Found), BundleError> {
        let file = self.file();
        let reading = tokio::task::spawn_blocking(move || self.read().map(|found| (self, found)));
        match tokio::time::timeout(PATIENCE, reading).await {
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

    /// Replaces the document that was found by a new file of the same owner and mode.
    ///
    /// The new file is not synced to disk: a bundle does not outlive a crash of its host.
    ///
    /// # Errors
    /// Anything on the way, or another document stands there by now: its engine may have given up
    /// the container that we prepare, and be about to create the next one. Then what stood there
    /// still stands, and no other file is left.
    pub fn replace(&self, bytes: &[u8], found: &Found) -> Result<(), BundleError> {
        self.put_for(found, |temporary| self.write_new(temporary, bytes, found))
    }

    /// Replaces the document that was found by the symbolic link that once stood there.
    ///
    /// # Errors
    /// As [`Bundle::replace`].
    pub fn link_again(&self, link: &Link, found: &Found) -> Result<(), BundleError> {
        self.put_for(found, |temporary| self.write_link(temporary, link))
    }

    /// Gives back what stood there before us, if the document is the one with this digest, as we
    /// wrote it. Nobody waits for us here: the engine may be writing another document at this
    /// moment, and that one stays.
    ///
    /// # Errors
    /// Anything on the way; then what stood there still stands and no other file is left.
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
        self.put(make, |out| matches!(out, Out::Document(bytes) if digest(bytes) == written))
            .map(drop)
    }

    fn put_for(
        &self,
        found: &Found,
        make: impl FnOnce(&OsString) -> io::Result<()>,
    ) -> Result<(), BundleError> {
        let is_found = |out: &Out| match (out, &found.link) {
            (Out::Document(bytes), None) => *bytes == found.bytes,
            (Out::Link(target), Some(link)) => *target == link.target,
            _ => false,
        };
        match self.put(make, is_found)? {
            true => Ok(()),
            false => Err(BundleError::Changed(self.file())),
        }
    }

    /// Puts a new file in place of what is as expected; whether it was.
    fn put(
        &self,
        make: impl FnOnce(&OsString) -> io::Result<()>,
        is_expected: impl FnOnce(&Out) -> bool,
    ) -> Result<bool, BundleError> {
        let temporary = self.temporary();
        make(&temporary).and_then(|()| self.exchange(&temporary, is_expected)).map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            BundleError::Replace(self.file(), e)
        })
    }

    /// Between a look at the document and a rename over it, another could come in its place. So
    /// they change places, and what came out is looked at: who had opened it to write has emptied
    /// it, and who renames comes before or after. Only one who has found the file and not yet
    /// emptied it, within one `open`, can be missed.
    fn exchange(
        &self,
        temporary: &OsString,
        is_expected: impl FnOnce(&Out) -> bool,
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
            // Not on this file system.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let is_expected = self.look_at(&self.name).is_ok_and(|out| is_expected(&out));
                match is_expected {
                    true => rustix::fs::renameat(&self.dir, temporary, &self.dir, &self.name)?,
                    false => self.sweep(),
                }
                return Ok(is_expected);
            }
            swapped => swapped?,
        }
        let is_expected = self.look_at(temporary).is_ok_and(|out| is_expected(&out));
        if !is_expected {
            let back = match swap() {
                // Ours has been removed meanwhile.
                Err(Errno::NOENT) => {
                    let flags = RenameFlags::NOREPLACE;
                    rustix::fs::renameat_with(&self.dir, temporary, &self.dir, &self.name, flags)
                }
                back => back,
            };
            if let Err(error) = back {
                // It must not be removed.
                tracing::error!(%error, "the engine's document is \
                                         {}", self.path.join(temporary).display());
                return Ok(false);
            }
        }
        self.sweep();
        Ok(is_expected)
    }

    /// What is there by this name.
    fn look_at(&self, name: &OsString) -> io::Result<Out> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Ok(fd) => {
                let mut bytes = Vec::new();
                File::from(fd).take(MAX_CONFIG_SIZE + 1).read_to_end(&mut bytes)?;
                Ok(Out::Document(bytes))
            }
            Err(Errno::LOOP) => {
                let target = rustix::fs::readlinkat(&self.dir, name, Vec::new())?;
                Ok(Out::Link(target.to_string_lossy().into_owned()))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn write_link(&self, name: &OsString, link: &Link) -> io::Result<()> {
        self.is_replaceable()?;
        self.sweep();
        rustix::fs::symlinkat(&link.target, &self.dir, name)?;
        let (uid, gid) = (Uid::from_raw(link.owner.0), Gid::from_raw(link.owner.1));
        rustix::fs::chownat(&self.dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Whatever stands there now goes; a directory, a device or a pipe is nobody's document.
    fn is_replaceable(&self) -> io::Result<()> {
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(now.st_mode) {
            FileType::RegularFile | FileType::Symlink => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Removes the new file that a killed predecessor had no time to put in place.
    pub fn sweep(&self) {
        let swept = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::empty());
        // Whoever may write there could exchange anything for it.
        if swept == Err(Errno::ISDIR) {
            let _ = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::REMOVEDIR);
        }
    }

    /// One name for all: whoever has the bundle's turn writes alone.
    fn temporary(&self) -> OsString {
        OsString::from(format!(".{}.nri", self.name()))
    }

    fn write_new(&self, name: &OsString, bytes: &[u8], like: &Found) -> io::Result<()> {
        self.is_replaceable()?;
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
