//! Holders of lock files (flock(2)), also of lock files that were removed while they were locked.
//!
//! Any container can run a process of any name, and open a file whose path reads like that of the
//! lock. So a holder is known by device and inode of the file that it has locked. A removed file
//! has no path to compare with: there, only a process of the host in our mount namespace counts,
//! whose paths are ours.

use crate::process::{command_name, has_mounts_of_host, is_of_host};
use procfs::{LockType, process::all_processes};
use std::{
    fs,
    io::ErrorKind,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Returns the id of the process that holds the lock of a file, also if the file was removed.
///
/// If `/proc/locks` does not lead to the holder, the descriptors of the host's processes called
/// `name` (`comm`) are searched. Only root can do that for processes that disable core dumps, since
/// the kernel hides their descriptors from other users.
pub fn lock_holder(file: &Path, name: &str) -> Option<i32> {
    let meta = match fs::symlink_metadata(file) {
        Ok(meta) => Some(meta),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    let by_inode = meta.as_ref().and_then(holder_by_inode);
    by_inode.or_else(|| holder_by_descriptor(file, meta.as_ref(), name))
}

/// Whether a process is called `name` and is one of the host: it has our pid namespace, and our
/// mount namespace or that of process 1, which `nrid` enters. No other process may be ended because
/// of a lock.
pub fn is_own(pid: i32, name: &str) -> bool {
    command_name(pid) == name && is_of_host(pid) && has_mounts_of_host(pid)
}

fn identity(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn holder_by_inode(meta: &fs::Metadata) -> Option<i32> {
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
fn holder_by_descriptor(file: &Path, meta: Option<&fs::Metadata>, name: &str) -> Option<i32> {
    let removed = [file.as_os_str().as_bytes(), b" (deleted)"].concat();
    let is_file = |path: &Path, open: &fs::Metadata| {
        meta.is_some_and(|meta| identity(meta) == identity(open))
            || (open.nlink() == 0 && path.as_os_str().as_bytes() == removed)
    };
    let has_file = |pid: i32| {
        let dir = PathBuf::from(format!("/proc/{pid}"));
        let entries = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|fd| {
            let is_file = || Some(is_file(&fs::read_link(&fd).ok()?, &fs::metadata(&fd).ok()?));
            let info = dir.join("fdinfo").join(fd.file_name().unwrap_or_default());
            is_file() == Some(true) && has_lock(&info)
        })
    };
    let own = i32::try_from(std::process::id()).ok();
    let mut others = all_processes().ok()?.flatten().map(|p| p.pid()).filter(|p| Some(*p) != own);
    others.find(|pid| is_own(*pid, name) && has_file(*pid))
}

/// Whether the open file that `info`, a file of `/proc/PID/fdinfo`, describes has a lock (flock).
fn has_lock(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    text.lines().any(|line| {
        line.strip_prefix("lock:").is_some_and(|lock| lock.split_whitespace().any(|w| w == "FLOCK"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Starts a process called `sleep` that has the file open as its standard input.
    fn sleep_with(file: &fs::File) -> Running {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::from(file.try_clone().unwrap())).stdout(Stdio::null());
        let running = Running(command.spawn().unwrap());
        running.wait_for_name("sleep");
        running
    }

    /// A process that is killed when it is dropped.
    struct Running(std::process::Child);

    impl Running {
        fn pid(&self) -> i32 {
            self.0.id() as i32
        }

        /// Waits until the process has its name: `spawn` returns as soon as the memory of the
        /// parent is given back, and the kernel sets the name after that.
        fn wait_for_name(&self, name: &str) {
            while command_name(self.pid()) != name {
                std::thread::yield_now();
            }
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn lock(file: &fs::File) {
        rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    }

    #[test]
    fn the_holder_of_a_lock_is_found_even_if_the_file_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(lock_holder(&path, "sleep"), None);
        let file = fs::File::create(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), None);
        lock(&file);
        assert_eq!(lock_holder(&path, "sleep"), Some(std::process::id() as i32));
        let holder = sleep_with(&file);
        fs::remove_file(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), Some(holder.pid()));
        assert_eq!(lock_holder(&path, "other"), None);
        // A new file at the path, which no process has locked.
        fs::File::create(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), Some(holder.pid()));
        drop(holder);
        assert_eq!(lock_holder(&path, "sleep"), None);
    }

    #[test]
    fn an_open_file_at_the_path_of_the_lock_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        let _open = sleep_with(&file);
        assert_eq!(lock_holder(&path, "sleep"), None);
        fs::remove_file(&path).unwrap();
        assert_eq!(lock_holder(&path, "sleep"), None);
    }

    /// As in a container: a file whose path reads like that of the lock, locked by a process that
    /// is called like the holder.
    #[test]
    fn a_locked_file_of_another_mount_namespace_is_not_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let script = "mount -t tmpfs none \"$1\" && exec 9>\"$1/lock\" && flock 9 || exit
                      if [ -n \"$2\" ]; then rm \"$1/lock\"; fi
                      echo ready && exec sleep 1000";
        for removed in ["", "removed"] {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path()).arg(removed);
            let mut tenant = Running(command.stdout(Stdio::piped()).spawn().unwrap());
            let mut ready = String::new();
            let stdout = tenant.0.stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut ready).unwrap();
            if ready.is_empty() {
                println!("skipped: no mount namespaces");
                return;
            }
            tenant.wait_for_name("sleep");
            assert_eq!(lock_holder(&path, "sleep"), None, "{removed}");
            assert!(!is_own(tenant.pid(), "sleep"));
        }
    }

    #[test]
    fn a_process_of_another_user_is_not_the_holder_of_a_removed_lock() {
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can start a process of another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        lock(&file);
        fs::remove_file(&path).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::from(file)).uid(65534).gid(65534);
        let tenant = Running(command.spawn().unwrap());
        tenant.wait_for_name("sleep");
        assert_eq!(lock_holder(&path, "sleep"), None);
    }
}
