//! The files of the host that the mounts of a container show, by their real paths: links and `..`
//! are resolved as the kernel does, bind mounts are followed to the shortest mount point at which
//! the same files are, and an overlay is the directories that it is made of.
//!
//! In `nrid`, this is the part of a child process (`path_probe.rs`), which runs in the mount
//! namespace of the runtime. A source is opened once, without the right to read it, so that what is
//! said about it is said about one file. Whoever can write a directory above a source can exchange
//! it before the runtime opens it. Start from [`resolve`]; `tree.rs` follows bind mounts,
//! `layers.rs` reads the options of overlays.

mod layers;
mod open;
mod tree;

pub(crate) use layers::Layers;

use layers::Role;
use nri_mountinfo::{MountInfo, parse};
use open::Opened;
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};
use tree::{MountTree, is_in_volume};

/// Maximum number of overlays in overlays: the kernel allows two.
const MAX_DEPTH: usize = 4;
/// Maximum number of objects for one source, so that no source makes messages to plugins huge. A
/// root file system has up to 500 layers.
const MAX_FILES: usize = 1024;

/// A source of a mount, to be resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSource {
    /// Absolute path; for a device whatever stands in its place.
    pub path: String,
    /// How the container has it.
    pub way: Way,
    /// Whether the container may write it.
    pub access: Access,
}

/// How a container has files of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// A bind mount of one file system.
    Bind,
    /// A bind mount with all mounts below the source.
    RecursiveBind,
    /// A layer of an overlay that the runtime mounts.
    Layer,
    /// A file system that the runtime mounts from a device or a server.
    Device,
    /// The root file system. Layers of images are not listed.
    Root,
}

/// Access of a container to a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Reading and writing.
    Write,
    /// Reading; mounts below the source may be writable.
    Read,
    /// Reading, of mounts below the source, too.
    ReadBelow,
}

/// Files of the host that a mount shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFiles {
    /// Path on the host without links, or a device or server.
    pub real: String,
    /// Whether the container may write them.
    pub writable: bool,
    /// How the container has them.
    pub kind: HostFilesKind,
    /// Type of the file at `real`; empty if `real` is no path.
    #[serde(rename = "type")]
    pub file_type: String,
}

/// Kinds of [`HostFiles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostFilesKind {
    /// The file itself.
    Bind,
    /// A directory of an overlay.
    Overlay,
    /// A file system from a device or a server.
    Device,
    /// The root file system itself.
    Root,
}

/// Resolves sources in the mount namespace of this process, whose mounts are `mounts`, and calls
/// `before` with each path before it is looked at: sources, layers, and mounts below. A result is
/// the reason if a source cannot be resolved.
pub fn resolve(
    sources: &[MountSource],
    mounts: &[MountInfo],
    before: &mut dyn FnMut(&Path),
) -> Vec<Result<Vec<HostFiles>, String>> {
    let resolver = Resolver { tree: MountTree::new(mounts, before) };
    sources.iter().map(|source| resolver.resolve(source)).collect()
}

/// Resolves sources as [`resolve`] does, among the mounts that this process sees.
pub fn resolve_here(sources: &[MountSource]) -> Vec<Result<Vec<HostFiles>, String>> {
    let mounts = parse(&fs::read("/proc/self/mountinfo").unwrap_or_default());
    resolve(sources, &mounts, &mut |_| ())
}

struct Resolver<'a> {
    tree: MountTree<'a>,
}

impl<'a> Resolver<'a> {
    fn resolve(&self, source: &MountSource) -> Result<Vec<HostFiles>, String> {
        let path = Path::new(&source.path);
        let writable = source.access == Access::Write;
        let files = match source.way {
            Way::Device => Ok(vec![self.device(path, writable)]),
            Way::Layer => {
                let opened = self.open(path)?;
                self.files(&opened, HostFilesKind::Overlay, writable, MAX_DEPTH)
            }
            Way::Root => self.root(path, source.access),
            Way::Bind => self.files(&self.open(path)?, HostFilesKind::Bind, writable, MAX_DEPTH),
            Way::RecursiveBind => {
                self.with_mounts_below(&self.open(path)?, HostFilesKind::Bind, source.access)
            }
        };
        let files = files?;
        match files.len() {
            0..=MAX_FILES => Ok(files),
            n => Err(format!("{path:?}: {n} directories, more than {MAX_FILES}")),
        }
    }

    fn open(&self, path: &Path) -> Result<Opened<'a>, String> {
        Opened::open(path, &self.tree)
    }

    /// Returns the files at a source, which are several directories on an overlay.
    fn files(
        &self,
        opened: &Opened<'a>,
        kind: HostFilesKind,
        writable: bool,
        depth: usize,
    ) -> Result<Vec<HostFiles>, String> {
        let (real, mount) = opened.place(&self.tree)?;
        // Only a FUSE program itself knows its layers. A root file system has the path at which
        // the engine has mounted it.
        let is_fuse = mount.fs_type.starts_with("fuse") && mount.fs_type.contains("overlay");
        if is_fuse && kind != HostFilesKind::Root {
            return Err(format!("{real:?}: the layers of {} are unknown", mount.fs_type));
        }
        // The overlay of a whole system is not followed: its files have no other path.
        if mount.fs_type == "overlay" && mount.point != Path::new("/") {
            return self.layers(mount, writable, depth);
        }
        Ok(vec![
            self.of_volume(mount, writable)
                .unwrap_or_else(|| host_files(&real, writable, kind, opened.file_type)),
        ])
    }

    /// Returns the directories of an overlay.
    fn layers(
        &self,
        mount: &'a MountInfo,
        writable: bool,
        depth: usize,
    ) -> Result<Vec<HostFiles>, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("{:?}: too many overlays in overlays", mount.point));
        };
        let mut files = Vec::new();
        for (path, is_written) in Layers::of_mount(mount)?.with_access() {
            let opened = self.open(path)?;
            let writable = writable && is_written;
            // A layer that the overlay itself covers, as that of /usr may be.
            if opened.mount.device == mount.device {
                let kind = HostFilesKind::Overlay;
                files.push(host_files(&opened.path, writable, kind, opened.file_type));
            } else {
                files.extend(self.files(&opened, HostFilesKind::Overlay, writable, depth)?);
            }
        }
        Ok(files)
    }

    /// Returns the files of a root file system, which runtimes mount with what is mounted below it.
    /// Layers of images are left out: those that lie beside the container's own layer in the store
    /// of the engine that has mounted it.
    fn root(&self, path: &Path, access: Access) -> Result<Vec<HostFiles>, String> {
        let opened = self.open(path)?;
        let mount = opened.mount;
        let is_overlay = mount.fs_type == "overlay" && mount.point == opened.path;
        if !is_overlay || mount.point == Path::new("/") {
            return self.with_mounts_below(&opened, HostFilesKind::Root, access);
        }
        let layers = Layers::of_mount(mount)?;
        if layers.store(&mount.point).is_none() {
            return self.with_mounts_below(&opened, HostFilesKind::Root, access);
        }
        let own = layers.upper().map(|upper| self.open(upper)).transpose()?.map(|own| own.path);
        let mut files = Vec::new();
        for (_, path) in layers.iter().filter(|(role, _)| *role == Role::Lower) {
            // Podman removes layers with mapped owners from the directory of the container again.
            let directory = own.as_deref().and_then(Path::parent);
            self.tree.announce(path);
            if directory.is_some_and(|dir| path.starts_with(dir)) && !path.exists() {
                continue;
            }
            let opened = self.open(path)?;
            if !own.as_deref().is_some_and(|own| are_beside(own, &opened.path)) {
                files.extend(self.files(&opened, HostFilesKind::Overlay, false, MAX_DEPTH)?);
            }
        }
        Ok(files)
    }

    /// Returns the files at a source and in the mounts below it, as far as these show others than
    /// the source does.
    fn with_mounts_below(
        &self,
        opened: &Opened<'a>,
        kind: HostFilesKind,
        access: Access,
    ) -> Result<Vec<HostFiles>, String> {
        let below: Vec<_> = self.tree.below(&opened.path).collect();
        // Read-only is the mount of the source alone.
        let has_writable = below.iter().any(|mount| !has_option(&mount.options, "ro"));
        let writable = access == Access::Write || (access == Access::Read && has_writable);
        let mut files = self.files(opened, kind, writable, MAX_DEPTH)?;
        let roots: Vec<_> = files.iter().map(|files| files.real.clone()).collect();
        let is_shown = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        for mount in below {
            let (real, shortest) = self.tree.shortest_view(mount);
            if let Some(of_volume) = self.of_volume(shortest, writable) {
                files.push(of_volume);
            } else if mount.fs_type == "overlay" {
                let layers = Layers::of_mount(mount)?;
                if !layers.iter().all(|(_, layer)| is_shown(layer)) {
                    files.extend(self.layers(mount, writable, MAX_DEPTH)?);
                }
            } else if !is_shown(&real) {
                self.tree.announce(&real);
                let file_type = open::type_of(&real);
                files.push(host_files(&real, writable, HostFilesKind::Bind, file_type));
            }
        }
        Ok(files)
    }

    /// Returns a device, with links resolved, or the server or the name that stands in its place.
    fn device(&self, path: &Path, writable: bool) -> HostFiles {
        let kind = HostFilesKind::Device;
        let opened = path.is_absolute().then(|| self.open(path).ok()).flatten();
        // A file system without a device takes any text, also the path of a directory.
        let opened = opened.filter(|found| found.file_type != "directory");
        let place = opened.and_then(|found| Some((found.place(&self.tree).ok()?.0, found)));
        match place {
            Some((real, opened)) => host_files(&real, writable, kind, opened.file_type),
            None => host_files(path, writable, kind, ""),
        }
    }

    /// Returns the device of a volume whose file system is mounted in volumes only, or the type of
    /// a file system without one, such as `cgroup`: the path in the volume says nothing of its
    /// files. `None` for other mounts, and for a file system in memory, which was empty.
    fn of_volume(&self, mount: &MountInfo, writable: bool) -> Option<HostFiles> {
        if !is_in_volume(&mount.point) || matches!(&*mount.fs_type, "ramfs" | "tmpfs") {
            return None;
        }
        let found = self.device(&mount.source, writable);
        let has_device = !found.file_type.is_empty() || found.real.contains(':');
        let real = if has_device { found.real } else { mount.fs_type.to_string() };
        Some(HostFiles { real, ..found })
    }
}

fn host_files(path: &Path, writable: bool, kind: HostFilesKind, file_type: &str) -> HostFiles {
    let real = path.to_string_lossy().into_owned();
    HostFiles { real, writable, kind, file_type: file_type.to_owned() }
}

/// Whether two directories are `DIR/A/NAME` and `DIR/B/NAME`.
fn are_beside(a: &Path, b: &Path) -> bool {
    let directory = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
    a.file_name().is_some() && a.file_name() == b.file_name() && directory(a) == directory(b)
}

fn has_option(options: &str, option: &str) -> bool {
    options.split(',').any(|found| found == option)
}

#[cfg(test)]
mod tests;
