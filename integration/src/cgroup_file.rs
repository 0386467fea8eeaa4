//! Reads files of containers' cgroups.

use crate::{Node, enter, machine::cgroup_below_root, systemd, unified_cgroups};
use std::{fs, io, path::PathBuf};

impl Node {
    /// Directory of a container's cgroup: of one controller on cgroup v1, of all on cgroup v2.
    pub fn cgroup_dir(&self, id: &str, controller: &str) -> PathBuf {
        let hierarchy = if unified_cgroups() { "" } else { controller };
        let dir = enter::root()
            .join("sys/fs/cgroup")
            .join(hierarchy)
            .join(cgroup_below_root(self.prefix(), id));
        // crun with systemd and cgroup v2 creates a sub-cgroup.
        let container = dir.join("container");
        if systemd() && container.is_dir() { container } else { dir }
    }

    /// Reads a file of a container's cgroup: `v1` of the controller on cgroup v1, `v2` on cgroup
    /// v2.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn kernel_file(
        &self,
        id: &str,
        controller: &str,
        v1: &str,
        v2: &str,
    ) -> io::Result<String> {
        let file = if unified_cgroups() { v2 } else { v1 };
        let text = fs::read_to_string(self.cgroup_dir(id, controller).join(file))?;
        Ok(text.trim_end().to_owned())
    }

    /// Reads a file of a container's cgroup that must exist (see [`Node::kernel_file`]).
    ///
    /// # Panics
    /// The file cannot be read.
    pub fn cgroup_file(&self, id: &str, controller: &str, v1: &str, v2: &str) -> String {
        self.kernel_file(id, controller, v1, v2).unwrap_or_else(|e| {
            panic!("{}: {v1}, {v2}: {e}", self.cgroup_dir(id, controller).display())
        })
    }
}
