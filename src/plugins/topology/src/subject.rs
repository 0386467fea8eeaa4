//! What is known of a container, whatever the policy is.

use crate::{
    cgroup::Place,
    hardware::cpuset::{CpuSet, NodeSet},
};
use std::collections::BTreeMap;

/// What is known of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its image; empty if unknown.
    pub image: String,
    /// Name of its pod.
    pub pod: String,
    /// Namespace of its pod.
    pub namespace: String,
    /// Its engine; `None` if the runtime does not say it.
    pub engine: Option<String>,
    /// Its labels, and those of its pod that it has not itself.
    pub labels: BTreeMap<String, String>,
    /// Its annotations, and those of its pod that it has not itself.
    pub annotations: BTreeMap<String, String>,
    /// Requested CPU time in thousandths of a CPU; 0 if none is.
    pub milli_cpus: u64,
    /// Memory limit in bytes.
    pub memory_limit: Option<u64>,
    /// CPUs and memory nodes that the engine has set for it.
    pub pinned: Option<(CpuSet, NodeSet)>,
    /// Where its cgroup is.
    pub cgroup: Place,
}
