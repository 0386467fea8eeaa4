//! Cgroup of a launched plugin, below a cgroup that systemd has delegated, for example. It accounts
//! for the resources that the plugin and its children use. When the plugin ends, all processes in
//! the cgroup are killed, also those that have left the plugin's process group.
//!
//! A plugin that may write to cgroups can move to another one: the cgroup is no security boundary.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nri_api::PluginId;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of attempts to remove the cgroup, and pause between two attempts. They allow 2 s: the
/// processes have received SIGKILL, and the kernel usually ends them within milliseconds.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Cgroup of one launch of a plugin.
#[derive(Debug)]
pub(crate) struct PluginCgroup {
    dir: PathBuf,
}

impl PluginCgroup {
    /// Creates a cgroup without processes below `parent`.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub(crate) fn create(parent: &Path, id: &PluginId) -> io::Result<Self> {
        let mut number = 0_u32;
        loop {
            // The cgroup of the previous launch still exists while it has a process.
            let dir = parent.join(format!("plugin-{id}.{number}"));
            match fs::create_dir(&dir) {
                Ok(()) => return Ok(Self { dir }),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns the file that moves a process into the cgroup.
    pub(crate) fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// Kills all processes of the cgroup, and removes it with the cgroups that the plugin created
    /// below it.
    ///
    /// # Errors
    /// The cgroup, or a cgroup below it, still has a process or cannot be removed.
    pub(crate) async fn end(self) -> io::Result<()> {
        let mut attempt = 0;
        loop {
            self.kill();
            for below in self.below().iter().rev() {
                // The error is not lost: the removal of the parent then fails too.
                let _ = fs::remove_dir(below);
            }
            match fs::remove_dir(&self.dir) {
                Err(e) if e.kind() == ErrorKind::ResourceBusy && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends SIGKILL to all processes of the cgroup and of the cgroups below it.
    pub(crate) fn kill(&self) {
        let file = OpenOptions::new().write(true).open(self.dir.join("cgroup.kill"));
        if file.and_then(|mut file| file.write_all(b"1")).is_ok() {
            return;
        }
        // Linux before 5.14 has no cgroup.kill.
        for dir in iter::once(&self.dir).chain(&self.below()) {
            let processes = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            for pid in processes.lines().filter_map(|line| line.parse().ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// Returns the cgroups below this one, each after its parent.
    fn below(&self) -> Vec<PathBuf> {
        let children = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            dirs.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let mut all = children(&self.dir);
        let mut next = 0;
        while let Some(dir) = all.get(next) {
            let more = children(dir);
            all.extend(more);
            next += 1;
        }
        all
    }
}

impl Drop for PluginCgroup {
    /// Removes the cgroup of a program that was not started.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launch_has_a_directory_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let id = PluginId::new("10", "a").unwrap();
        let first = PluginCgroup::create(parent.path(), &id).unwrap();
        let second = PluginCgroup::create(parent.path(), &id).unwrap();
        assert_eq!(first.procs(), parent.path().join("plugin-10-a.0/cgroup.procs"));
        assert_ne!(first.procs(), second.procs());
        PluginCgroup::create(&parent.path().join("none"), &id).unwrap_err();
    }

    #[tokio::test]
    async fn a_cgroup_is_removed_with_the_cgroups_below_it() {
        let parent = tempfile::tempdir().unwrap();
        let id = PluginId::new("10", "a").unwrap();
        let cgroup = PluginCgroup::create(parent.path(), &id).unwrap();
        let dir = cgroup.dir.clone();
        for below in ["x/y/z", "x/w", "v"] {
            fs::create_dir_all(dir.join(below)).unwrap();
        }
        cgroup.end().await.unwrap();
        assert!(!dir.exists());
    }
}
