//! Isolation of a launched plugin: network and mount namespaces of its own.
//!
//! The plugin has no network, and what it could change of the running kernel through file systems
//! is read-only: `/sys` with all that is mounted below it, other mounts of the same file systems,
//! and the files of `/proc` that runtimes make read-only in containers. Other files are as outside:
//! a unix socket with a path can be connected to.
//!
//! The launcher isolates itself while it is privileged. The plugin cannot undo it: that takes
//! capabilities in the user namespace of the mounts.

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nri_mountinfo::MountInfo;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the file systems of the kernel are mounted.
const SYS: &str = "/sys";

/// File systems through which the kernel or containers are controlled. They may also be mounted
/// elsewhere, such as in the root file system of a privileged container.
const CONTROL_FILE_SYSTEMS: [&str; 8] =
    ["sysfs", "cgroup", "cgroup2", "resctrl", "debugfs", "tracefs", "configfs", "bpf"];

/// Read-only files and directories of `/proc`: those that containerd and Docker make read-only.
const READ_ONLY_PROC: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Flags of a mount that a remount would otherwise clear, by their names in the mount table.
const KEPT_FLAGS: [(&str, MsFlags); 6] = [
    ("nosuid", MsFlags::MS_NOSUID),
    ("nodev", MsFlags::MS_NODEV),
    ("noexec", MsFlags::MS_NOEXEC),
    ("noatime", MsFlags::MS_NOATIME),
    ("nodiratime", MsFlags::MS_NODIRATIME),
    ("relatime", MsFlags::MS_RELATIME),
];

const READ_ONLY: MsFlags = MsFlags::MS_RDONLY;

/// A mount that becomes read-only, with the flags that it has.
#[derive(Debug, PartialEq, Eq)]
struct ControlMount {
    point: PathBuf,
    flags: MsFlags,
}

/// Moves this process, which has one thread, into namespaces of its own.
///
/// # Errors
/// The process may not create namespaces or change mounts in them.
pub(crate) fn isolate() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    // Otherwise the changes below would also be made in the host's namespace.
    set(Path::new("/"), MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    let mounts = control_mounts(&fs::read("/proc/self/mountinfo")?);
    for mount in &mounts {
        match set(&mount.point, mount.flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | READ_ONLY) {
            // Another mount hides this one, so that no path leads to it.
            Err(Errno::EINVAL | Errno::ENOENT) => {}
            result => result?,
        }
    }
    mounts.iter().filter(|mount| mount.point.starts_with(SYS)).try_for_each(check_read_only)?;
    for path in READ_ONLY_PROC.map(Path::new).into_iter().filter(|path| path.exists()) {
        mount(Some(path), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        set(path, flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | READ_ONLY)?;
    }
    Ok(())
}

/// Changes a mount.
fn set(point: &Path, flags: MsFlags) -> nix::Result<()> {
    mount(None::<&str>, point, None::<&str>, flags, None::<&str>)
}

/// Checks that a path leads to no file system that can be written to.
fn check_read_only(mount: &ControlMount) -> io::Result<()> {
    let point = mount.point.display();
    match statvfs(&mount.point) {
        Ok(stat) if stat.f_flag.contains(StatVfsMountFlags::RDONLY) => Ok(()),
        Ok(_) => Err(io::Error::other(format!("{point} stays writable"))),
        // Another mount hides this one, so that no path leads to it.
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => {
            let error = io::Error::from(error);
            Err(io::Error::new(error.kind(), format!("{point}: {error}")))
        }
    }
}

/// Returns the mounts of a mount table that become read-only.
fn control_mounts(table: &[u8]) -> Vec<ControlMount> {
    nri_mountinfo::parse(table).into_iter().filter_map(control_mount).collect()
}

/// Returns a mount as it becomes read-only; `None` if it stays as it is.
fn control_mount(mount: MountInfo) -> Option<ControlMount> {
    let is_control = CONTROL_FILE_SYSTEMS.contains(&mount.fs_type.as_str());
    if !is_control && !mount.point.starts_with(SYS) {
        return None;
    }
    let has = |name: &str| mount.options.split(',').any(|option| option == name);
    let kept = KEPT_FLAGS.iter().filter(|(name, _)| has(name)).map(|(_, flag)| *flag);
    Some(ControlMount { flags: kept.collect(), point: mount.point })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sys_and_other_mounts_of_its_file_systems_become_read_only() {
        let table = b"22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
            23 22 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n\
            24 23 0:26 / /sys/fs/cgroup ro,nosuid master:1 propagate_from:2 - tmpfs tmpfs ro\n\
            25 22 0:22 / /proc rw - proc proc rw\n\
            26 22 0:27 / /a\\040b\\134c rw,noatime - cgroup2 none rw\n\
            27 22 0:30 / /system rw - tmpfs tmpfs rw\n\
            broken\n";
        let mount = |point: &str, flags: &[MsFlags]| ControlMount {
            point: point.into(),
            flags: flags.iter().copied().collect(),
        };
        let (nosuid, nodev) = (MsFlags::MS_NOSUID, MsFlags::MS_NODEV);
        assert_eq!(
            control_mounts(table),
            [
                mount("/sys", &[nosuid, nodev, MsFlags::MS_NOEXEC, MsFlags::MS_RELATIME]),
                mount("/sys/fs/cgroup", &[nosuid]),
                mount("/a b\\c", &[MsFlags::MS_NOATIME]),
            ]
        );
    }
    #[test]
    fn a_mount_that_cannot_be_looked_up_does_not_count_as_read_only() {
        let check = |point: &str| {
            let mount = ControlMount { point: point.into(), flags: MsFlags::empty() };
            check_read_only(&mount).map_err(|error| error.to_string())
        };
        let dir = tempfile::tempdir().unwrap();
        assert!(check(dir.path().to_str().unwrap()).unwrap_err().contains("stays writable"));
        let below_file = check("/proc/self/status/none").unwrap_err();
        assert!(below_file.contains("/proc/self/status/none: Not a directory"), "{below_file}");
        assert_eq!(check("/proc/none"), Ok(()));
    }
}
