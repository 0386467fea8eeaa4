//! Groups of adjustable fields other than resources, one file per group.
//!
//! Each file has two functions: `claim` claims the values that a reply sets, and may find a
//! conflict; `apply` sets them, and cannot fail. [`crate::apply`] lists the groups.

pub(crate) mod annotations;
pub(crate) mod args;
pub(crate) mod cdi;
pub(crate) mod cgroups_path;
pub(crate) mod devices;
pub(crate) mod env;
pub(crate) mod hooks;
pub(crate) mod io_priority;
pub(crate) mod memory_policy;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod net_devices;
pub(crate) mod oom_score_adj;
pub(crate) mod rdt;
pub(crate) mod rlimits;
pub(crate) mod scheduler;
pub(crate) mod seccomp;
pub(crate) mod sysctl;
