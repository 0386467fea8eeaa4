//! Holders of lock files (flock(2)), also of lock files that were removed while they were locked.

use procfs::{
    LockType,
    process::{FDTarget, Process, all_processes},
};
use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::Path,
};

/// Returns the id of the process that holds the lock of a file, also if the file was removed.
///
/// If `/proc/locks` does not lead to the holder, the descriptors of all processes called `name`
/// (`comm`) are searched. Only root can do that for processes that disable core dumps, since the
/// kernel hides their descriptors from other users.
pub fn lock_holder(file: &Path, name: &str) -> Option<i32> {
    holder_by_inode(file).or_else(|| holder_by_descriptor(file, name))
}

fn holder_by_inode(file: &Path) -> Option<i32> {
    let meta = fs::symlink_metadata(file).ok()?;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let is_of_file = |lock: &procfs::Lock| {
        lock.lock_type == LockType::FLock
            && (lock.devmaj, lock.devmin) == device
            && lock.inode == meta.ino()
    };
    procfs::locks().ok()?.into_iter().find(is_of_file)?.pid.filter(|pid| *pid > 0)
}

/// Finds the process by its descriptors: some file systems have another device number in
/// `/proc/locks` than in stat(2), and a removed file has no inode to look for.
fn holder_by_descriptor(file: &Path, name: &str) -> Option<i32> {
    let mut removed = file.as_os_str().to_owned().into_vec();
    removed.extend(b" (deleted)");
    let removed = OsString::from_vec(removed);
    let is_file =
        |target: FDTarget| matches!(target, FDTarget::Path(p) if p == *file || p == *removed);
    let has_file = |process: &Process| {
        process.stat().is_ok_and(|stat| stat.comm == name && !matches!(stat.state, 'Z' | 'X'))
            && process.fd().is_ok_and(|mut fds| fds.any(|fd| fd.is_ok_and(|fd| is_file(fd.target))))
    };
    let own = i32::try_from(std::process::id()).ok();
    let mut others = all_processes().ok()?.flatten().filter(|p| Some(p.pid()) != own);
    others.find(has_file).map(|process| process.pid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_holder_of_a_lock_is_found_even_if_the_file_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(lock_holder(&path, "sleep"), None);
        let file = fs::File::create(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), None);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(holder_by_inode(&path), Some(std::process::id() as i32));
        // The child has the descriptor as its standard input.
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::from(file.try_clone().unwrap()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert_eq!(holder_by_descriptor(&path, "sleep"), Some(pid));
        fs::remove_file(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), Some(pid));
        assert_eq!(lock_holder(&path, "other"), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(lock_holder(&path, "sleep"), None);
    }
}
