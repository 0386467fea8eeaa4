//! The cgroup mount of a container.

use nri_plugin::proto::Mount;

/// Where containers have their cgroups.
const DESTINATION: &str = "/sys/fs/cgroup";

/// Error: the container has no such mount.
#[derive(Debug, thiserror::Error)]
#[error("no {DESTINATION} mount found to modify, this is unexpected")]
pub(crate) struct NoCgroupMount;

/// Returns the cgroup mount.
pub(crate) fn find(mounts: &[Mount]) -> Result<&Mount, NoCgroupMount> {
    mounts.iter().find(|mount| mount.destination == DESTINATION).ok_or(NoCgroupMount)
}

/// Returns the mount with the option `rw` and without `ro`; `None` if it is that already.
pub(crate) fn writable(mount: &Mount) -> Option<Mount> {
    let has = |option: &str| mount.options.iter().any(|other| other == option);
    if has("rw") && !has("ro") {
        return None;
    }
    let mut writable = mount.clone();
    writable.options.retain(|option| option != "ro");
    if !has("rw") {
        writable.options.push("rw".to_owned());
    }
    Some(writable)
}
