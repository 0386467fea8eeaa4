//! Says on which file systems a path lies before a look at it waits for one of them. Start from
//! [`walk`], which takes one component at a time, as the kernel does.

use nri_mountinfo::MountInfo;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, StatxFlags, fstatfs,
        openat2, readlinkat, statx,
    },
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Maximum number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Follows a path from the root directory of this process, and calls `enter` before it asks a file
/// system: with its device as `major:minor`, or with the path of a mount that `mounts` does not
/// have, or with the target of a link of `/proc`. Ends at the first component that cannot be
/// followed: the look at the path itself has the reason.
pub(super) fn walk(path: &Path, mounts: &[MountInfo], enter: &mut dyn FnMut(&str)) {
    // Not an error: see above.
    let _ = follow(path, mounts, enter);
}

fn follow(path: &Path, mounts: &[MountInfo], enter: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut at = open(CWD, OsStr::new("/"))?;
    enter(&device(&at)?);
    let mut rest = Vec::new();
    push(&mut rest, path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == "/" || part == ".." {
            at = open(&at, &part)?;
            enter(&device(&at)?);
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let part_at = |resolve| openat2(&at, part.as_os_str(), flags, Mode::empty(), resolve);
        let next = match part_at(ResolveFlags::NO_XDEV) {
            // On a mount: what is mounted there may hang already when it is opened.
            Err(Errno::XDEV) => {
                let directory = fs::read_link(format!("/proc/self/fd/{}", at.as_raw_fd()))?;
                let point = directory.join(&part);
                match mounts.iter().rfind(|mount| mount.point == point) {
                    Some(mount) => enter(&mount.device),
                    None => enter(&point.to_string_lossy()),
                }
                part_at(ResolveFlags::empty())?
            }
            opened => opened?,
        };
        if !is_link(&next)? {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        let target = OsStr::from_bytes(target.as_bytes());
        if fstatfs(&next)?.f_type == PROC_SUPER_MAGIC {
            // The text of such a link need not be the path of what it leads to.
            enter(&target.to_string_lossy());
            at = open(&at, &part)?;
            enter(&device(&at)?);
        } else {
            push(&mut rest, Path::new(target));
        }
    }
    Ok(())
}

/// Puts the components of a path before those that are left.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    rest.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    rest.retain(|part| part != ".");
}

fn open(at: impl AsFd, path: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat2(at, path, flags, Mode::empty(), ResolveFlags::empty())?)
}

/// Returns the device of an open file, as `major:minor`. Does not ask its file system.
fn device(file: &OwnedFd) -> io::Result<String> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(file, c"", flags, StatxFlags::empty())?;
    Ok(format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))
}

/// Whether an open file is a symbolic link. Does not ask its file system.
fn is_link(file: &OwnedFd) -> io::Result<bool> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mode = statx(file, c"", flags, StatxFlags::TYPE)?.stx_mode;
    Ok(FileType::from_raw_mode(u32::from(mode)) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::proc::mounts;
    use std::os::unix::fs::symlink;

    fn walked(path: &Path) -> Vec<String> {
        let mut found = Vec::new();
        walk(path, &mounts(), &mut |place| found.push(place.to_owned()));
        found
    }

    fn device_of(path: &str) -> String {
        device(&open(CWD, OsStr::new(path)).unwrap()).unwrap()
    }

    #[test]
    fn the_file_system_of_a_mount_is_known_before_it_is_asked() {
        let table = mounts();
        let proc = table.iter().rfind(|mount| mount.point == Path::new("/proc")).unwrap();
        let last = walked(Path::new("/proc/version")).last().cloned();
        assert_eq!(last.as_ref(), Some(&proc.device));
        // A table without the mount: its path stands for it.
        let mut found = Vec::new();
        walk(Path::new("/proc/version"), &[], &mut |place| found.push(place.to_owned()));
        found.dedup();
        assert_eq!(found, [device_of("/"), "/proc".to_owned()]);
    }

    #[test]
    fn links_lead_to_the_file_systems_of_their_targets() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("/proc/sys", at("absolute")).unwrap();
        symlink("absolute", at("relative")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let proc = device_of("/proc");
        for name in ["absolute", "relative", "relative/kernel/..", "./relative/."] {
            assert_eq!(walked(&at(name)).last(), Some(&proc), "{name}");
        }
        for name in ["loop", "missing/absolute"] {
            assert!(!walked(&at(name)).contains(&proc), "{name}");
        }
        let up = walked(&at("absolute/../../"));
        assert_eq!(up.last(), Some(&device_of("/")));
    }

    #[test]
    fn links_of_proc_are_followed_like_any_access() {
        let file = open(CWD, OsStr::new("/dev/null")).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let found = walked(Path::new(&path));
        assert_eq!(found.last(), Some(&device(&file).unwrap()));
        assert!(found.contains(&"/dev/null".to_owned()), "{found:?}");
    }
}
