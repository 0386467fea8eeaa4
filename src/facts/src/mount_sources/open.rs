//! Opens sources as the runtime will: links followed, from the root directory of the runtime.

use super::tree::MountTree;
use nri_mountinfo::MountInfo;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    fs::{self, File, FileType},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

/// A file that was opened once.
pub(super) struct Opened<'a> {
    /// Path without links.
    pub(super) path: PathBuf,
    /// The mount on which the file is.
    pub(super) mount: &'a MountInfo,
    /// Device and inode.
    id: (u64, u64),
    /// Its type.
    pub(super) file_type: &'static str,
}

impl<'a> Opened<'a> {
    /// Opens a path without reading the file.
    ///
    /// # Errors
    /// The file does not exist, or is in another mount namespace, or depends on the process that
    /// opens it.
    pub(super) fn open(path: &Path, tree: &MountTree<'a>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{path:?}: {error}");
        tree.announce(path);
        let file = open_path(path).map_err(failed)?;
        let (name, metadata, mount) = described(&file).map_err(failed)?;
        let mount = tree.by_id(mount).filter(|mount| name.starts_with(&mount.point));
        let mount = mount
            .ok_or_else(|| format!("{path:?}: on no mount of the runtime's mount namespace"))?;
        Ok(Self {
            path: name,
            mount,
            id: (metadata.dev(), metadata.ino()),
            file_type: type_name(metadata.file_type()),
        })
    }

    /// Returns the path at which others know the file, see [`MountTree::place`].
    ///
    /// # Errors
    /// The mounts changed meanwhile.
    pub(super) fn place(&self, tree: &MountTree<'a>) -> Result<(PathBuf, &'a MountInfo), String> {
        tree.place(&self.path, self.mount, self.id)
    }
}

/// Returns path, metadata and mount of an open file.
fn described(file: &OwnedFd) -> io::Result<(PathBuf, fs::Metadata, u64)> {
    let number = file.as_raw_fd();
    let name = fs::read_link(format!("/proc/self/fd/{number}"))?;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    let mount = mount.ok_or(io::ErrorKind::Unsupported)?;
    let metadata = File::from(file.try_clone()?).metadata()?;
    Ok((name, metadata, mount))
}

/// Opens a path. Links of `/proc` such as `/proc/self/fd/3` and `/proc/self/cwd` lead elsewhere in
/// the runtime than here, so that no path may have them, but for root directories of processes.
fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = |path: &Path, resolve| openat2(CWD, path, flags, Mode::empty(), resolve);
    let root = match open(path, ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::LOOP) => root_of_process(path),
        opened => return Ok(opened?),
    };
    let dependent = || io::Error::other("goes through a link that depends on the process");
    let (process, rest) = root.ok_or_else(dependent)?;
    let Some(process) = process else { return open_path(&rest) };
    let root = open(&process, ResolveFlags::empty())?;
    // Links in the rest lead where they would for the runtime.
    let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { &rest };
    let opened = openat2(root, rest, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    opened.map_err(|error| if error == Errno::LOOP { dependent() } else { error.into() })
}

/// Splits `/proc/PID/root/…` into the link to the root directory of a process and the rest. The
/// root directory of the runtime itself is that of this process, and has no link.
fn root_of_process(path: &Path) -> Option<(Option<PathBuf>, PathBuf)> {
    let mut parts = path.components();
    let begins = parts.next()? == Component::RootDir && parts.next()?.as_os_str() == "proc";
    let process = parts.next()?.as_os_str().to_str()?;
    if !begins || parts.next()?.as_os_str() != "root" {
        return None;
    }
    let rest = parts.as_path();
    match process {
        "self" | "thread-self" => Some((None, Path::new("/").join(rest))),
        pid => {
            pid.parse::<u32>().ok()?;
            Some((Some(format!("/proc/{pid}/root").into()), rest.to_owned()))
        }
    }
}

/// Returns the type of the file at a path; that of most mounts if it cannot be looked at.
pub(super) fn type_of(path: &Path) -> &'static str {
    fs::symlink_metadata(path).map_or("directory", |file| type_name(file.file_type()))
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        t if t.is_dir() => "directory",
        t if t.is_socket() => "socket",
        t if t.is_block_device() => "block",
        t if t.is_char_device() => "character",
        t if t.is_fifo() => "fifo",
        _ => "file",
    }
}
