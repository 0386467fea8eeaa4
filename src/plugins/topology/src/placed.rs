//! A container with its CPUs and memory nodes.

use crate::{
    hardware::cpuset::{CpuSet, NodeSet},
    request::Request,
};
use std::collections::BTreeMap;

/// Whose CPUs a container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Its own.
    Exclusive,
    /// Those of the shared pool, or of a part of it.
    Shared,
    /// Those that its engine has set.
    Pinned,
    /// Unknown ones: the plugin leaves it as it is.
    Unmanaged,
}

/// A container with its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it gets.
    pub request: Request,
    /// Whose CPUs it has.
    pub kind: Kind,
    /// The CPUs on which it runs; empty if it is unmanaged.
    pub cpus: CpuSet,
    /// CPUs that no other container may use.
    pub owned: CpuSet,
    /// CPUs that were owned, and are given up by an update that is not known to have been made: the
    /// container may still run there. No other container gets them, and they count for quotas.
    pub kept: CpuSet,
    /// Memory nodes; empty if they are left as they are.
    pub nodes: NodeSet,
    /// Why it has not what it wants.
    pub reason: Option<String>,
    /// Whether the plugin has seen its creation.
    pub is_seen: bool,
    /// How many exclusive CPUs it wanted at its creation: the most that it keeps when it no longer
    /// says a number.
    pub(crate) first_count: usize,
    /// Nodes of `cpus` when `nodes` was decided.
    pub(crate) home: NodeSet,
    /// Index of the group whose part of the shared pool it uses.
    pub(crate) group: Option<usize>,
}

/// CPUs and memory nodes of a container; an empty set is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// CPUs.
    pub cpus: CpuSet,
    /// Memory nodes.
    pub nodes: NodeSet,
}

/// Assignments that an event changes, by ids of containers.
pub type Changes = BTreeMap<String, Assignment>;

impl Placed {
    pub(crate) fn new(request: Request, kind: Kind) -> Self {
        Self {
            first_count: request.count,
            request,
            kind,
            cpus: CpuSet::new(),
            owned: CpuSet::new(),
            kept: CpuSet::new(),
            nodes: NodeSet::new(),
            reason: None,
            is_seen: true,
            home: NodeSet::new(),
            group: None,
        }
    }

    /// Returns what the container should have.
    pub fn assignment(&self) -> Assignment {
        Assignment { cpus: self.cpus.clone(), nodes: self.nodes.clone() }
    }

    /// Returns what the container may have: its CPUs, and those that it gives up.
    pub fn may_have(&self) -> Assignment {
        Assignment { cpus: self.cpus.or(&self.kept), nodes: self.nodes.clone() }
    }

    /// Returns the CPUs that no other container may get.
    pub fn occupied(&self) -> CpuSet {
        self.owned.or(&self.kept)
    }

    /// Whether the container shares CPUs, but wants exclusive ones.
    pub fn is_degraded(&self) -> bool {
        self.kind == Kind::Shared && self.request.count > 0
    }
}
