//! The mounts of a mount namespace, by id and by file system: where else a file can be reached.

use nri_mountinfo::MountInfo;
use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A mount table with indices.
pub(super) struct MountTree<'a> {
    mounts: &'a [MountInfo],
    by_id: HashMap<u64, &'a MountInfo>,
    by_device: HashMap<&'a str, Vec<&'a MountInfo>>,
    before: RefCell<&'a mut dyn FnMut(&Path)>,
}

impl<'a> MountTree<'a> {
    /// Indexes a mount table. `before` is called with each path that is about to be looked at.
    pub(super) fn new(mounts: &'a [MountInfo], before: &'a mut dyn FnMut(&Path)) -> Self {
        let mut by_device: HashMap<&str, Vec<&MountInfo>> = HashMap::new();
        for mount in mounts {
            by_device.entry(&mount.device).or_default().push(mount);
        }
        let by_id = mounts.iter().map(|mount| (mount.id, mount)).collect();
        Self { mounts, by_id, by_device, before: RefCell::new(before) }
    }

    /// Says that a path is about to be looked at.
    pub(super) fn announce(&self, path: &Path) {
        (*self.before.borrow_mut())(path);
    }

    /// Returns the mount with an id.
    pub(super) fn by_id(&self, id: u64) -> Option<&'a MountInfo> {
        self.by_id.get(&id).copied()
    }

    /// Returns the mounts whose mount points are below a path.
    pub(super) fn below(&self, path: &Path) -> impl Iterator<Item = &'a MountInfo> {
        self.mounts.iter().filter(move |m| m.point != path && m.point.starts_with(path))
    }

    /// Returns the path of a file on the shortest mount point at which its file system shows it,
    /// and that mount: `/etc`, and neither `/sysroot/…/etc` nor, however short its path is, a
    /// volume that is a bind mount of it: users name volumes. `id` is device and inode of the file,
    /// which is on `mount`.
    ///
    /// # Errors
    /// The path is not on its mount, which changed meanwhile.
    pub(super) fn place(
        &self,
        path: &Path,
        mount: &'a MountInfo,
        id: (u64, u64),
    ) -> Result<(PathBuf, &'a MountInfo), String> {
        let rest = path.strip_prefix(&mount.point).map_err(|error| error.to_string())?;
        let views = self.views(mount, &join(&mount.root, rest));
        // Another mount may cover that path.
        let is_same = |view: &Path| {
            view == path || {
                self.announce(view);
                fs::symlink_metadata(view).is_ok_and(|m| (m.dev(), m.ino()) == id)
            }
        };
        let mut seen = views.into_iter().filter(|(view, _)| is_same(view));
        Ok(seen.next().unwrap_or_else(|| (path.to_owned(), mount)))
    }

    /// Returns the same for a mount point, without a look at its files.
    pub(super) fn shortest_view(&self, mount: &'a MountInfo) -> (PathBuf, &'a MountInfo) {
        let first = self.views(mount, &mount.root).into_iter().next();
        first.unwrap_or_else(|| (mount.point.clone(), mount))
    }

    /// Returns the paths of a directory of a file system in all its mounts, those in volumes last,
    /// those on the shortest mount points first, and of these those that have most of the file
    /// system.
    fn views(&self, mount: &MountInfo, directory: &Path) -> Vec<(PathBuf, &'a MountInfo)> {
        let mounts = self.by_device.get(&*mount.device).into_iter().flatten();
        let mut views: Vec<_> = mounts
            .filter_map(|m| Some((join(&m.point, directory.strip_prefix(&m.root).ok()?), *m)))
            .collect();
        let rank = |m: &MountInfo| {
            (is_in_volume(&m.point), m.point.as_os_str().len(), m.root.components().count())
        };
        views.sort_by_key(|(_, mount)| rank(mount));
        views
    }
}

/// Whether a mount point is the directory of a volume of Docker or Podman, which mount there
/// whatever file system a user names, or below it.
pub(super) fn is_in_volume(point: &Path) -> bool {
    point.components().any(|name| name.as_os_str() == "_data")
}

/// Appends a relative path, without a slash if it is empty.
fn join(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}
