//! The file that a program will be once all mounts are made. The runtime follows links, also those
//! inside earlier mounts, so a mount is trusted only if no link can change its mount point.

use super::files::{place, within};
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

/// File systems without links to elsewhere: empty at first, or filled by the kernel.
const PLAIN: [&str; 2] = ["tmpfs", "sysfs"];

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
    Own(File),
    /// A file of the host that only root can change, mounted.
    Mounted(File),
}

/// Returns the program of this name; `None` if it cannot be determined. `all`: root directory for
/// sources.
pub(super) fn program(
    all: &OwnedFd,
    root: &OwnedFd,
    name: &Path,
    mounts: &[CandidateMount],
) -> io::Result<Option<Program>> {
    let file = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let own = match within(root, name, file, ResolveFlags::empty()) {
        Ok(own) => Some(own),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e.into()),
    };
    let place = match &own {
        Some(own) => match place(own)?.strip_prefix(place(root)?) {
            Ok(place) => place.to_owned(),
            Err(_) => return Ok(None),
        },
        None => match fixed(root, name)? {
            Some(place) => place,
            None => return Ok(None),
        },
    };
    let mut destinations = Vec::new();
    for mount in mounts {
        match fixed(root, &mount.destination)? {
            Some(destination) => destinations.push((destination, mount)),
            None => return Ok(None),
        }
    }
    for (inner, _) in &destinations {
        let above = |(outer, mount): &(PathBuf, &CandidateMount)| {
            inner != outer && inner.starts_with(outer) && !PLAIN.contains(&mount.kind.as_str())
        };
        if destinations.iter().any(above) {
            return Ok(None);
        }
    }
    let over: Vec<_> = destinations
        .iter()
        .filter(|(destination, _)| {
            destination.starts_with(&place) || place.starts_with(destination)
        })
        .collect();
    match over.as_slice() {
        [] => Ok(own.map(|own| Program::Own(own.into()))),
        [(destination, mount)] if *destination == place && mount.kind == "bind" => {
            // A user who can replace the file can do so until it is mounted.
            if Owners::of_this_process().check(&mount.source).is_err() {
                return Ok(None);
            }
            let source = within(all, &mount.source, file, ResolveFlags::empty())?;
            Ok(Some(Program::Mounted(source.into())))
        }
        _ => Ok(None),
    }
}

/// Path relative to the root; `None` if it has a link or `..`. Missing components will be created
/// as written.
fn fixed(root: &OwnedFd, path: &Path) -> io::Result<Option<PathBuf>> {
    let mut place = PathBuf::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => place.push(part),
            Component::ParentDir | Component::Prefix(_) => return Ok(None),
        }
    }
    if place.as_os_str().is_empty() {
        return Ok(Some(place));
    }
    match within(root, &place, OFlags::PATH, ResolveFlags::NO_SYMLINKS) {
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(Some(place)),
        Err(Errno::LOOP) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
