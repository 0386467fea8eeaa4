//! The groups of `LinuxResources`, a file each, and their list.
//!
//! Each file has the functions `claim` and `apply`, as in [`crate::fields`]. [`device_rules`] is
//! part of the message, but not of the list: only adjustments set rules of the device cgroup.

mod blockio;
mod cpu;
pub(crate) mod device_rules;
pub(crate) mod groups;
mod hugepages;
mod memory;
mod pids;
mod rdt_class;
mod unified;
