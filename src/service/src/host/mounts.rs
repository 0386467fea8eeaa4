//! The mounts that this process sees.

use nri_mountinfo::MountInfo;

/// Returns the mounts in the order of the table, or none if the table cannot be read. If several
/// mounts have the same mount point, the last one is on top.
pub fn mounts() -> Vec<MountInfo> {
    nri_mountinfo::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}
