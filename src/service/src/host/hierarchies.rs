//! The cgroup hierarchies that are mounted on this host.

use nri_cgroup::Hierarchy;
use nri_host::mountinfo::{MountInfo, mounts};

/// Returns the hierarchies in the mount namespace of this process.
pub fn mounted() -> Vec<Hierarchy> {
    let hierarchy =
        |m: &MountInfo| Hierarchy::of_mount(&m.root, &m.point, &m.fs_type, &m.super_options);
    mounts().iter().filter_map(hierarchy).collect()
}
