//! The cgroup hierarchies that are mounted on this host.

use crate::host::proc::mounts;
use nri_cgroup::Hierarchy;
use nri_mountinfo::MountInfo;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Time for which the hierarchies are cached. A host with many containers has many mounts to read,
/// but the mounts of control groups hardly ever change.
const VALIDITY: Duration = Duration::from_secs(10);

/// The hierarchies, and the time at which they were read. Like the mount namespace, they are the
/// same for the whole process.
static KNOWN: Mutex<Option<(Instant, Arc<[Hierarchy]>)>> = Mutex::new(None);

/// Returns the hierarchies in the mount namespace of this process. The result may come from the
/// cache, and then be some seconds old.
pub fn mounted() -> Arc<[Hierarchy]> {
    let mut known = KNOWN.lock();
    if let Some((at, hierarchies)) = known.as_ref()
        && at.elapsed() < VALIDITY
    {
        return hierarchies.clone();
    }
    let hierarchies: Arc<[Hierarchy]> = read().into();
    *known = Some((Instant::now(), hierarchies.clone()));
    hierarchies
}

/// Reads the hierarchies in the mount namespace of this process.
pub fn read() -> Vec<Hierarchy> {
    let hierarchy =
        |m: &MountInfo| Hierarchy::of_mount(&m.root, &m.point, &m.fs_type, &m.super_options);
    mounts().iter().filter_map(hierarchy).collect()
}
