//! Plugins that this process launches: discovery, programs, their output, restarts, reloads.
//!
//! Start from [`LaunchSupervisor`](supervisor::LaunchSupervisor).

pub(crate) mod backoff;
pub(crate) mod cgroup;
pub(crate) mod directory;
pub(crate) mod discovery;
pub(crate) mod exec;
pub(crate) mod format;
pub(crate) mod isolation;
pub mod launcher;
pub(crate) mod output;
pub(crate) mod output_limit;
pub(crate) mod pinned;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod relaunch;
pub(crate) mod reload;
pub(crate) mod skip_reason;
pub(crate) mod supervisor;
