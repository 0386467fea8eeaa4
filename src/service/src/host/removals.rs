//! Notice of entries that disappear from directories, by inotify.

use crate::host::sys;
use rustix::fs::inotify;
use std::{
    collections::HashMap,
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};
use tokio::io::unix::AsyncFd;

/// Watched directories.
#[derive(Debug)]
pub struct Removals {
    inotify: AsyncFd<OwnedFd>,
    dirs: HashMap<i32, PathBuf>,
}

impl Removals {
    /// Creates the inotify instance, which watches no directory yet.
    ///
    /// # Errors
    /// There are too many inotify instances.
    pub fn new() -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self { inotify: sys::wait_readable(inotify::init(flags)?)?, dirs: HashMap::new() })
    }

    /// Whether a directory is watched. The watch ends when the directory is removed, or when events
    /// are lost.
    pub fn is_watched(&self, dir: &Path) -> bool {
        self.dirs.values().any(|watched| watched == dir)
    }

    /// Adds a directory to the watched directories.
    ///
    /// # Errors
    /// The directory does not exist, or there are too many watches.
    pub fn watch(&mut self, dir: &Path) -> io::Result<()> {
        let flags = inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::ONLYDIR;
        let number = inotify::add_watch(self.inotify.get_ref(), dir, flags)?;
        self.dirs.insert(number, dir.to_owned());
        Ok(())
    }

    /// Waits for removals, and returns the directory and the name of each removed entry.
    ///
    /// # Errors
    /// The inotify instance fails.
    pub async fn next(&mut self) -> io::Result<Vec<(PathBuf, String)>> {
        let mut ready = self.inotify.readable().await?;
        let (mut removed, mut buffer) = (Vec::new(), [MaybeUninit::uninit(); 4096]);
        let mut events = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                self.dirs.clear();
            } else if event.events().contains(inotify::ReadFlags::IGNORED) {
                self.dirs.remove(&event.wd());
            } else if let (Some(dir), Some(name)) = (self.dirs.get(&event.wd()), event.file_name())
                && let Ok(name) = name.to_str()
            {
                removed.push((dir.clone(), name.to_owned()));
            }
        }
        ready.clear_ready();
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn removals_are_noticed_until_the_directory_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        for name in ["a", "b"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let mut removals = Removals::new().unwrap();
        assert!(removals.watch(&dir.path().join("none")).is_err());
        removals.watch(&root).unwrap();
        std::fs::remove_dir(root.join("b")).unwrap();
        assert_eq!(removals.next().await.unwrap(), [(root.clone(), "b".to_owned())]);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(removals.next().await.unwrap(), [(root.clone(), "a".to_owned())]);
        // The kernel may report the end of the watch later.
        while removals.is_watched(&root) {
            removals.next().await.unwrap();
        }
    }
}
