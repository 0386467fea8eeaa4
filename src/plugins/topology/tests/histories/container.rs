//! A container as engine and kernel have it.

use nri_topology::{
    existing::Assigned, hardware::cpuset::CpuSet, placed::Assignment, subject::Subject,
};

/// A container that exists.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) subject: Subject,
    /// What it has; empty sets until some are set.
    pub(crate) has: Assignment,
    /// Annotations of the plugin. `None` if the plugin did not see it.
    pub(crate) assigned: Option<Assigned>,
    /// When it was created.
    pub(crate) created_at: i64,
    /// CPUs that the engine has set for it.
    pub(crate) pinned: Option<CpuSet>,
}
