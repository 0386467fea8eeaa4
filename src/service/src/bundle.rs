//! The OCI document in its bundle: read through the directory that the wrapper passed, and replaced atomically.
//!
//! What stands in the document is not this file's business.

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use sha2::{Digest, Sha256};
use std::{
    ffi::OsString,
    fs::{File, Metadata},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// Larger documents are refused; real ones have some 10 to 100 KiB.
pub const MAX_DOCUMENT: u64 = 16 << 20;

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
    meta: Metadata,
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
    /// It is too large.
    #[error("{0} is larger than {MAX_DOCUMENT} bytes")]
    TooLarge(PathBuf),
    /// It cannot be replaced; the old one still stands.
    #[error("cannot replace {0}: {1}")]
    Replace(PathBuf, #[source] io::Error),
}

impl Bundle {
    /// The document `config` (`config.json` if there is no other name) of the bundle whose directory is `dir`.
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
        let stat =
            rustix::fs::fstat(&self.dir).map_err(|e| BundleError::Read(self.path.clone(), e.into()))?;
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
        let fd =
            rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
        let file = File::from(fd);
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(BundleError::NotAFile(self.file()));
        }
        let mut bytes = Vec::with_capacity(meta.len().min(MAX_DOCUMENT) as usize + 1);
        file.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_DOCUMENT {
            return Err(BundleError::TooLarge(self.file()));
        }
        Ok(Found { bytes, meta })
    }

    /// Replaces the document by a new file of the same owner and mode.
    ///
    /// The new file is not synced to disk: a bundle does not outlive a crash of its host.
    ///
    /// # Errors
    /// Anything on the way; then the old document still stands and no other file is left.
    pub fn replace(&self, bytes: &[u8], like: &Found) -> Result<(), BundleError> {
        let temporary = self.temporary();
        let written = self.write_new(&temporary, bytes, like).and_then(|()| {
            rustix::fs::renameat(&self.dir, &temporary, &self.dir, &self.name).map_err(io::Error::from)
        });
        written.map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            BundleError::Replace(self.file(), e)
        })
    }

    /// Removes the new file that a killed predecessor had no time to put in place.
    pub fn sweep(&self) {
        let _ = rustix::fs::unlinkat(&self.dir, self.temporary(), AtFlags::empty());
    }

    /// One name for all: whoever has the bundle's turn writes alone.
    fn temporary(&self) -> OsString {
        OsString::from(format!(".{}.nri", self.name()))
    }

    fn write_new(&self, name: &OsString, bytes: &[u8], like: &Found) -> io::Result<()> {
        // A link cannot be replaced by what it points to without changing the bundle in a way that the engine may not expect.
        let now = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if rustix::fs::FileType::from_raw_mode(now.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link"));
        }
        self.sweep();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        let (uid, gid) = (Uid::from_raw(like.meta.uid()), Gid::from_raw(like.meta.gid()));
        rustix::fs::fchown(fd.as_fd(), Some(uid), Some(gid))?;
        rustix::fs::fchmod(fd.as_fd(), Mode::from_raw_mode(like.meta.mode() & 0o7777))?;
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        file.flush()
    }
}

/// SHA-256 of a document, in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn bundle(dir: &Path) -> Bundle {
        Bundle::open(dir, "config.json").unwrap()
    }

    #[test]
    fn replacing_keeps_mode_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let bundle = bundle(dir.path());
        let found = bundle.read().unwrap();
        bundle.replace(b"new", &found).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_predecessor_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), "old").unwrap();
        fs::write(dir.path().join(".config.json.nri"), "half").unwrap();
        bundle(dir.path()).sweep();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(
            matches!(bundle(dir.path()).read(), Err(BundleError::Read(_, e)) if e.kind() == io::ErrorKind::NotFound)
        );
        fs::create_dir(dir.path().join("config.json")).unwrap();
        assert!(matches!(bundle(dir.path()).read(), Err(BundleError::NotAFile(_))));
    }

    #[test]
    fn a_link_is_read_but_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other"), "{}").unwrap();
        std::os::unix::fs::symlink("other", dir.path().join("config.json")).unwrap();
        let bundle = bundle(dir.path());
        let found = bundle.read().unwrap();
        assert_eq!(found.bytes, b"{}");
        let error = bundle.replace(b"new", &found).unwrap_err().to_string();
        assert!(error.ends_with("symbolic link"), "{error}");
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"{}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_document_elsewhere_in_the_bundle() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/other.json"), "{}").unwrap();
        let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let bundle = Bundle::new(fd, dir.path(), Some(Path::new("sub/other.json"))).unwrap();
        assert_eq!(bundle.read().unwrap().bytes, b"{}");
        assert_eq!(bundle.file(), dir.path().join("sub/other.json"));
    }
}
