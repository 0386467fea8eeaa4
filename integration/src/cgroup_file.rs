//! Reads files of containers' cgroups.

use crate::{Node, enter, is_cgroup_v2, machine::cgroup_below_root, uses_systemd};
use std::{fs, io, path::PathBuf};

impl Node {
    /// Directory of a container's cgroup: in the hierarchy of `controller` on cgroup v1, in the
    /// only hierarchy on cgroup v2.
    pub fn cgroup_dir(&self, id: &str, controller: &str) -> PathBuf {
        let hierarchy = if is_cgroup_v2() { "" } else { controller };
        let dir = enter::root()
            .join("sys/fs/cgroup")
            .join(hierarchy)
            .join(cgroup_below_root(self.prefix(), id));
        // crun with systemd and cgroup v2 creates a sub-cgroup.
        let container = dir.join("container");
        if uses_systemd() && container.is_dir() { container } else { dir }
    }

    /// Reads a file of a container's cgroup: on cgroup v1 the file `v1` of the controller, on
    /// cgroup v2 the file `v2`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn try_cgroup_file(
        &self,
        id: &str,
        controller: &str,
        v1: &str,
        v2: &str,
    ) -> io::Result<String> {
        let file = if is_cgroup_v2() { v2 } else { v1 };
        let text = fs::read_to_string(self.cgroup_dir(id, controller).join(file))?;
        Ok(text.trim_end().to_owned())
    }

    /// Reads a file that must exist in a container's cgroup (see [`Node::try_cgroup_file`]).
    ///
    /// # Panics
    /// The file cannot be read.
    pub fn cgroup_file(&self, id: &str, controller: &str, v1: &str, v2: &str) -> String {
        self.try_cgroup_file(id, controller, v1, v2).unwrap_or_else(|e| {
            panic!("{}: {v1}, {v2}: {e}", self.cgroup_dir(id, controller).display())
        })
    }
}
