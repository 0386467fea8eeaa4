//! Finds the file that the runtime will execute as the container's program after it has made all
//! mounts. The runtime follows links, also links inside earlier mounts, so the file is known only
//! if no link can change a mount point.

use super::files::{open_in_root, path_of};
use nri_trust::Owners;
use rustix::{
    fs::{OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

/// Types of file systems in which no user can have placed a link before the runtime makes the next
/// mount: empty at first, or filled by the kernel.
const WITHOUT_LINKS: [&str; 2] = ["tmpfs", "sysfs"];

/// A mount of the OCI config.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CandidateMount {
    /// Destination.
    pub destination: PathBuf,
    /// Source.
    pub source: PathBuf,
    /// File system type, or `bind`.
    pub kind: String,
}

/// The program of a container.
#[derive(Debug)]
pub(super) enum Program {
    /// A file of the root file system.
    RootFs(File),
    /// A file of the host that other users cannot change, bind-mounted.
    Mounted(File),
}

/// Returns the program of this name; `None` if it cannot be determined. `host_root` is the root
/// directory for sources of mounts, `root` the root directory of the container.
pub(super) fn program(
    host_root: &OwnedFd,
    root: &OwnedFd,
    name: &Path,
    mounts: &[CandidateMount],
) -> io::Result<Option<Program>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open_in_root(root, name, flags, ResolveFlags::empty()) {
        Ok(file) => Some(file),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e.into()),
    };
    let location = match &file {
        Some(file) => match path_of(file)?.strip_prefix(path_of(root)?) {
            Ok(path) => path.to_owned(),
            Err(_) => return Ok(None),
        },
        None => match path_without_links(root, name)? {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let mut destinations = Vec::new();
    for mount in mounts {
        match path_without_links(root, &mount.destination)? {
            Some(destination) => destinations.push((destination, mount)),
            None => return Ok(None),
        }
    }
    for (inner, _) in &destinations {
        let may_redirect = |(outer, mount): &(PathBuf, &CandidateMount)| {
            inner != outer
                && inner.starts_with(outer)
                && !WITHOUT_LINKS.contains(&mount.kind.as_str())
        };
        if destinations.iter().any(may_redirect) {
            return Ok(None);
        }
    }
    let affecting: Vec<_> = destinations
        .iter()
        .filter(|(destination, _)| {
            destination.starts_with(&location) || location.starts_with(destination)
        })
        .collect();
    match affecting.as_slice() {
        [] => Ok(file.map(|file| Program::RootFs(file.into()))),
        [(destination, mount)] if *destination == location && mount.kind == "bind" => {
            // Until the runtime mounts the file, a user who can write to its path could replace it.
            if Owners::of_this_process().check(&mount.source).is_err() {
                return Ok(None);
            }
            let source = open_in_root(host_root, &mount.source, flags, ResolveFlags::empty())?;
            Ok(Some(Program::Mounted(source.into())))
        }
        _ => Ok(None),
    }
}

/// Returns the path relative to the root; `None` if it has a link or `..`. Missing components
/// are taken as written, since the runtime will create them.
fn path_without_links(root: &OwnedFd, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut relative = PathBuf::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => relative.push(part),
            Component::ParentDir | Component::Prefix(_) => return Ok(None),
        }
    }
    if relative.as_os_str().is_empty() {
        return Ok(Some(relative));
    }
    match open_in_root(root, &relative, OFlags::PATH, ResolveFlags::NO_SYMLINKS) {
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Some(relative)),
        Err(Errno::LOOP) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
