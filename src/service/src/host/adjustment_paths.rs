//! Host paths in an adjustment: propagation of the mounts that contain mount sources, and device
//! nodes. Start from [`AdjustmentPaths::probe`].

use crate::host::path_probe::{Node, PathProbe, ProbeError, ProbeRequest};
use nri_host::mountinfo::{MountInfo, MountPropagation, mounts};
use nri_spec::{HostDevice, HostDeviceKind, Propagation};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Probe results for the host paths of an adjustment.
#[derive(Debug, Default)]
pub struct AdjustmentPaths {
    mounts: HashMap<PathBuf, Propagation>,
    real: HashMap<String, Option<String>>,
    nodes: HashMap<String, Option<Node>>,
}

/// Error of probing paths.
#[derive(Debug, thiserror::Error)]
#[error("{paths}: {source}")]
pub struct UnprobedPaths {
    /// The paths, quoted, separated by commas.
    paths: String,
    /// Why the probe failed.
    source: ProbeError,
}

impl AdjustmentPaths {
    /// Probes sources of mounts and nodes of devices.
    ///
    /// # Errors
    /// A path hangs, or the probe fails.
    pub async fn probe(
        probe: &PathProbe,
        sources: Vec<String>,
        nodes: Vec<String>,
    ) -> Result<Self, UnprobedPaths> {
        if sources.is_empty() && nodes.is_empty() {
            return Ok(Self::default());
        }
        let request = ProbeRequest { real: sources, nodes, infra: None };
        let reply = probe.probe(&request).await.map_err(|source| {
            let all: Vec<_> =
                request.real.iter().chain(&request.nodes).map(|p| format!("{p:?}")).collect();
            UnprobedPaths { paths: all.join(", "), source }
        })?;
        let mounts = match request.real.as_slice() {
            [] => HashMap::new(),
            _ => by_point(mounts()),
        };
        Ok(Self {
            mounts,
            real: request.real.into_iter().zip(reply.real).collect(),
            nodes: request.nodes.into_iter().zip(reply.nodes).collect(),
        })
    }

    /// Returns the propagation of the mount that contains a path.
    pub fn propagation(&self, path: &str) -> Option<Propagation> {
        let real = self.real.get(path)?.as_deref().unwrap_or(path);
        propagation_at(&self.mounts, Path::new(real))
    }

    /// Returns the device node at a path.
    pub fn device(&self, path: &str) -> Option<HostDevice> {
        device(*self.nodes.get(path)?.as_ref()?)
    }
}

/// Maps mount points to propagations. The last of several mounts on one point is the visible one.
fn by_point(mounts: Vec<MountInfo>) -> HashMap<PathBuf, Propagation> {
    let propagation = |mount: MountInfo| match mount.propagation {
        MountPropagation::Shared => (mount.point, Propagation::Shared),
        MountPropagation::Slave => (mount.point, Propagation::Slave),
        MountPropagation::Private => (mount.point, Propagation::Private),
    };
    mounts.into_iter().map(propagation).collect()
}

/// Returns the propagation of the deepest mount that contains a path.
fn propagation_at(mounts: &HashMap<PathBuf, Propagation>, path: &Path) -> Option<Propagation> {
    path.ancestors().find_map(|point| mounts.get(point)).copied()
}

fn device(node: Node) -> Option<HostDevice> {
    use rustix::fs::FileType;
    let kind = match FileType::from_raw_mode(node.mode) {
        FileType::BlockDevice => HostDeviceKind::Block,
        FileType::CharacterDevice => HostDeviceKind::Char,
        FileType::Fifo => HostDeviceKind::Fifo,
        _ => return None,
    };
    Some(HostDevice {
        kind,
        major: i64::from(rustix::fs::major(node.rdev)),
        minor: i64::from(rustix::fs::minor(node.rdev)),
        mode: node.mode & 0o7777,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_host::mountinfo::parse_mounts;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_deepest_and_last_mount_gives_the_propagation() {
        let table = "\
1 0 0:1 / / rw shared:1 - ext4 /dev/a rw
2 1 0:2 / /a rw master:1 - ext4 /dev/b rw
3 2 0:3 / /a/b\\040c rw - ext4 /dev/c rw
4 2 0:4 / /a rw shared:9 master:1 - tmpfs t rw
";
        let mounts = by_point(parse_mounts(table.as_bytes()));
        let of = |p: &str| propagation_at(&mounts, Path::new(p));
        assert_eq!(of("/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/b c/d"), Some(Propagation::Private));
        assert_eq!(of("/ab"), Some(Propagation::Shared));
        assert_eq!(of("/a/"), Some(Propagation::Shared));
        assert_eq!(of("a"), None);
        assert_eq!(propagation_at(&HashMap::new(), Path::new("/a")), None);
    }

    #[test]
    fn each_of_thousands_of_mounts_has_its_own_propagation() {
        use std::fmt::Write;
        let kinds = [Propagation::Shared, Propagation::Slave, Propagation::Private];
        let mut table = String::from("1 0 0:1 / / rw - ext4 /dev/a rw\n");
        // Every seventh mount point has a second mount, with the next propagation.
        for layer in 0..2 {
            for n in (0..5000).filter(|n| layer == 0 || n % 7 == 0) {
                let tag = ["shared:1 ", "master:1 ", ""][(n + layer) % 3];
                writeln!(table, "2 1 0:2 / /m/{n}/inner rw {tag}- ext4 /dev/b rw").unwrap();
            }
        }
        let mounts = by_point(parse_mounts(table.as_bytes()));
        for n in 0..5000 {
            let expected = kinds[(n + usize::from(n % 7 == 0)) % 3];
            let of = |below: &str| propagation_at(&mounts, Path::new(&format!("/m/{n}{below}")));
            assert_eq!(of("/inner"), Some(expected), "{n}");
            assert_eq!(of("/inner/deep/down"), Some(expected), "{n}");
            assert_eq!(of("/innermost"), Some(Propagation::Private), "{n}");
        }
    }

    #[test]
    fn null_is_a_device() {
        let at = |path: &str| {
            let meta = std::fs::symlink_metadata(path).unwrap();
            device(Node { mode: meta.mode(), rdev: meta.rdev() })
        };
        let null = at("/dev/null").unwrap();
        assert_eq!((null.kind, null.major, null.minor), (HostDeviceKind::Char, 1, 3));
        assert_eq!(at("/proc/self/stat"), None);
    }

    #[tokio::test]
    async fn without_paths_no_child_is_started() {
        let probe = PathProbe::default();
        let paths = AdjustmentPaths::probe(&probe, Vec::new(), Vec::new()).await.unwrap();
        assert_eq!((paths.propagation("/"), paths.device("/dev/null")), (None, None));
    }
}
