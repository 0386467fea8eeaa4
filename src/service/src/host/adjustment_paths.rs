//! Host paths in an adjustment: device nodes, and the propagation of the host mounts that contain
//! the sources of the adjustment's mounts. Start from [`AdjustmentPaths::probe`].

use crate::host::{
    mount_namespace::MountNamespace,
    path::probe::{Node, PathProbe, ProbeError, ProbeRequest},
};
use nri_mountinfo::MountPropagation;
use nri_spec::{HostDevice, HostDeviceKind, Propagation};
use std::collections::HashMap;

/// Probe results for the host paths of an adjustment.
#[derive(Debug, Default)]
pub struct AdjustmentPaths {
    /// Propagation of the mounts that contain the sources.
    propagation: HashMap<String, Option<MountPropagation>>,
    nodes: HashMap<String, Option<Node>>,
}

/// Paths that cannot be probed.
#[derive(Debug, thiserror::Error)]
#[error("{paths}: {source}")]
pub struct UnprobedPaths {
    /// The paths, quoted, separated by commas.
    paths: String,
    /// Why the probe failed.
    source: ProbeError,
}

impl AdjustmentPaths {
    /// Probes sources of mounts and nodes of devices in the mount namespace in which the runtime
    /// will look them up: `namespace`, or that of `nrid` if it is `None`.
    ///
    /// # Errors
    /// A path hangs, or the probe fails.
    pub async fn probe(
        probe: &PathProbe,
        namespace: Option<&MountNamespace>,
        sources: Vec<String>,
        nodes: Vec<String>,
    ) -> Result<Self, UnprobedPaths> {
        if sources.is_empty() && nodes.is_empty() {
            return Ok(Self::default());
        }
        let (asked, nodes_asked) = (sources.clone(), nodes.clone());
        let request =
            ProbeRequest { sources: asked, nodes: nodes_asked, ..ProbeRequest::default() };
        let reply = probe.probe(&request, namespace).await.map_err(|source| {
            let all: Vec<_> = sources.iter().chain(&nodes).map(|p| format!("{p:?}")).collect();
            UnprobedPaths { paths: all.join(", "), source }
        })?;
        Ok(Self {
            propagation: sources.into_iter().zip(reply.propagation).collect(),
            nodes: nodes.into_iter().zip(reply.nodes).collect(),
        })
    }

    /// Returns the propagation of the mount that contains a path.
    pub fn propagation(&self, path: &str) -> Option<Propagation> {
        Some(match (*self.propagation.get(path)?)? {
            MountPropagation::Shared => Propagation::Shared,
            MountPropagation::Slave => Propagation::Slave,
            MountPropagation::Private => Propagation::Private,
        })
    }

    /// Returns the device node at a path.
    pub fn device(&self, path: &str) -> Option<HostDevice> {
        device(*self.nodes.get(path)?.as_ref()?)
    }
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
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn dev_null_is_a_device_node_and_a_regular_file_is_not() {
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
        let paths = AdjustmentPaths::probe(&probe, None, Vec::new(), Vec::new()).await.unwrap();
        assert_eq!((paths.propagation("/"), paths.device("/dev/null")), (None, None));
    }
}
