//! Which file a program is once everything is mounted. Nothing is mounted yet, and a runtime
//! follows links, also those in what it has mounted before; so only mounts count as understood
//! whose place cannot be changed by one.

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

/// File systems that have no link to elsewhere, and begin empty or as the kernel's.
const PLAIN: [&str; 2] = ["tmpfs", "sysfs"];

/// A mount, as the document has it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CandidateMount {
    /// Where to.
    pub destination: PathBuf,
    /// What.
    pub source: PathBuf,
    /// File system, or `bind`.
    pub kind: String,
}

/// A file to be run.
#[derive(Debug)]
pub(super) enum Program {
    /// In the root file system.
    Own(File),
    /// Mounted there from the host, where it is in the hands of root.
    Mounted(File),
}

/// The program of this name; none where that cannot be told. `all`: what sources are relative to.
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
            // Who could put another file there could do so until it is mounted.
            if Owners::of_this_process().check(&mount.source).is_err() {
                return Ok(None);
            }
            let source = within(all, &mount.source, file, ResolveFlags::empty())?;
            Ok(Some(Program::Mounted(source.into())))
        }
        _ => Ok(None),
    }
}

/// Where that is, relative to the root: none if a link is on the way, or `..`. What is not there
/// will be made as it is written.
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
