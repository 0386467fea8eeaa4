//! Near files: the files on the file system of the state directory. `nrid` accesses them on the
//! thread of the request, and not on a thread that may hang, because it does so with its records
//! anyway. On most hosts this file system is the tmpfs `/run`, which also has bundles and the
//! directories of runtimes' containers. For files that each call of an engine needs, where a switch
//! to another thread would cost more than the access.
//!
//! A path may lead to any file system, so a path is resolved only if the kernel has all of it in
//! its cache (`RESOLVE_CACHED`, Linux 5.12). Otherwise, callers use [`super::file_access`]. The
//! same look-up serves for files elsewhere of which the kernel's caches say enough: [`cached`].

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags, fstat, makedev, openat2, statx,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The device of the state directory, which stays mounted as long as this process has the lock of
/// the directory; [`NONE`] until it is known. A property of the process, like its open files.
static DEVICE: AtomicU64 = AtomicU64::new(NONE);

/// The number of no device.
const NONE: u64 = 0;

/// Sets the file system by a file on it: the lock of the state directory. Until then, no file is
/// near.
///
/// # Errors
/// The device of the file is unknown.
pub fn set_file_system(lock: impl AsFd) -> io::Result<()> {
    DEVICE.store(fstat(lock)?.st_dev, Relaxed);
    Ok(())
}

/// Whether an open file is near. Does not ask its file system.
pub fn is_near(file: impl AsFd) -> bool {
    let near = DEVICE.load(Relaxed);
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let device = || statx(file, c"", flags, StatxFlags::empty());
    near != NONE
        && device().is_ok_and(|found| makedev(found.stx_dev_major, found.stx_dev_minor) == near)
}

/// Opens a directory, for look-ups below it, if it is near and the kernel has its path in the
/// cache.
pub fn open_directory(path: &Path) -> Option<OwnedFd> {
    if DEVICE.load(Relaxed) == NONE {
        return None;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
    is_near(&dir).then_some(dir)
}

/// Returns what the kernel has in its caches of a file, near or not; links are followed. The file
/// system is not asked, so this call does not hang with it, except on 9p without a cache. A file
/// that an NFS server has changed in place may look unchanged.
pub fn cached(path: &Path) -> Option<Statx> {
    let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::CACHED);
    let file = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(file, c"", flags, StatxFlags::BASIC_STATS).ok()
}

/// Returns the path of a near directory without links.
pub fn resolved(path: &Path) -> Option<PathBuf> {
    let dir = open_directory(path)?;
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Runs in a process of its own, because no file may be near in the tests of other modules.
    #[test]
    fn only_directories_of_the_file_system_are_near() {
        const INSIDE: &str = "NRID_TEST_NEAR_FILES";
        if std::env::var_os(INSIDE).is_none() {
            let test = "host::near_files::tests::only_directories_of_the_file_system_are_near";
            let program = std::env::current_exe().unwrap();
            let output = std::process::Command::new(program)
                .args(["--exact", test])
                .env(INSIDE, "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        assert!(open_directory(&real).is_none(), "no file system is set");
        set_file_system(std::fs::File::open(dir.path()).unwrap()).unwrap();
        assert_eq!(resolved(&real), Some(real.clone()));
        let link = dir.path().join("link");
        // The first look-up of a link updates the link's time of access, which the kernel does not
        // do for a look-up in its cache.
        std::fs::metadata(&link).unwrap();
        assert_eq!(resolved(&link), Some(real));
        assert_eq!(resolved(&dir.path().join("none")), None);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(open_directory(&dir.path().join("file")).is_none());
        assert!(open_directory(Path::new("/proc/self")).is_none());
        assert!(!is_near(std::fs::File::open("/proc/self/stat").unwrap()));
        let file = std::fs::metadata(dir.path().join("file")).unwrap();
        let found = cached(&dir.path().join("file")).unwrap();
        assert_eq!((found.stx_ino, found.stx_size), (file.ino(), 0));
        assert!(cached(&dir.path().join("none")).is_none());
    }
}
