//! Properties of a host: cgroups, resctrl and kernel.

use nri_api::{ResourceField, resource_field};
use std::collections::BTreeSet;

const SWAP: &ResourceField = resource_field("memory.swap");

/// Properties of a host that decide which features a runtime can support.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCapabilities {
    /// Whether containers are in cgroup v2; in the hybrid layout they are in v1.
    pub cgroup_v2: bool,
    /// Controllers of the cgroup version that containers are in, by their names in v2: `io`, not
    /// `blkio`.
    pub controllers: BTreeSet<String>,
    /// Controllers that are delegated to the user of a rootless engine; `None`: all, as for root.
    pub delegated: Option<BTreeSet<String>>,
    /// The files of [`FILES`](super::FILES) that the host's cgroups have.
    pub files: BTreeSet<String>,
    /// The entries of `files` that could not be looked up and are assumed to exist.
    pub assumed_files: BTreeSet<String>,
    /// Whether resctrl is mounted.
    pub resctrl: bool,
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
}

impl HostCapabilities {
    /// Whether the kernel limits swap: not with `swapaccount=0`, nor if it was built without it.
    pub fn has_swap_accounting(&self) -> bool {
        let names = if self.cgroup_v2 { SWAP.v2 } else { SWAP.v1 };
        names.iter().any(|name| self.files.contains(*name))
    }
}
