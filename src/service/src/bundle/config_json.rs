//! The file `config.json` of an engine's bundle, read through the directory descriptor that the
//! wrapper passed. It is never written. The content is not interpreted here.

use crate::{
    bundle::record::BundleAccess,
    host::{file_access::FileSystem, near_files},
};
pub use nri_host::sha256 as digest;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
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
}

/// Failure to read a `config.json`.
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
        Ok(Self { dir, path, name, identity })
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

    /// Returns group and modes of the directory and `config.json`; `None` if they cannot be read.
    pub fn access(&self) -> Option<BundleAccess> {
        let dir = rustix::fs::fstat(&self.dir).ok()?;
        let file = rustix::fs::statat(&self.dir, &self.name, AtFlags::empty()).ok()?;
        let (group, dir) = (dir.st_gid, dir.st_mode & 0o777);
        Some(BundleAccess { group, dir, file: file.st_mode & 0o777 })
    }

    /// Reads `config.json`.
    ///
    /// # Errors
    /// The file is missing, unreadable, too large, or not a regular file.
    pub fn read(&self) -> Result<Vec<u8>, BundleError> {
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
        Ok(bytes)
    }

    /// Whether there is a symbolic link at the path of `config.json`.
    pub fn is_link(&self) -> bool {
        let found = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode) == FileType::Symlink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn bundle(dir: &Path) -> Bundle {
        Bundle::open(dir, "config.json").unwrap()
    }

    #[test]
    fn a_missing_file_and_a_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let missing = bundle(dir.path()).read().unwrap_err();
        assert!(matches!(missing, BundleError::Read(_, e) if e.kind() == io::ErrorKind::NotFound));
        fs::create_dir(dir.path().join("config.json")).unwrap();
        let error = bundle(dir.path()).read().unwrap_err().to_string();
        assert!(error.ends_with("config.json is not a regular file"), "{error}");
    }

    #[test]
    fn the_config_may_have_another_name_and_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/other.json"), "{}").unwrap();
        let fd = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let bundle = Bundle::new(fd, dir.path(), Some(Path::new("sub/other.json"))).unwrap();
        assert_eq!(bundle.read().unwrap(), b"{}");
        assert_eq!(bundle.file(), dir.path().join("sub/other.json"));
    }
}
