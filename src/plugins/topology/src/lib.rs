//! NRI plugin that places containers on CPUs and memory nodes by a policy.
//!
//! Deciding and doing are apart: `allocator.rs` and what it uses are functions from values to
//! values. The shell around it reads sysfs (`hardware`), is an NRI plugin (`plugin.rs`) and
//! answers `nri-topology status` (`socket.rs`).

pub mod account;
pub mod allocator;
pub mod cgroup;
pub mod classes;
mod confirm;
mod exclusive;
pub mod existing;
pub mod facts;
pub mod hardware;
mod memory_nodes;
mod pattern;
pub mod placed;
pub mod placement;
pub mod plugin;
pub mod policy;
pub mod quota;
mod rebalance;
pub mod request;
mod shared;
pub mod socket;
pub mod status;
pub mod subject;
pub mod svg;
mod synchronize;
pub mod taken;
