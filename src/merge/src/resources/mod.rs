//! Groups of fields of `LinuxResources`, one file per group, and the list of groups.
//!
//! Each file has the functions `claim` and `apply`, as in [`crate::fields`]. Device rules
//! ([`device_rules`]) are part of the message, but not of the list: only adjustments set rules of
//! the device cgroup.

mod blockio;
mod cpu;
pub(crate) mod device_rules;
pub(crate) mod groups;
mod hugepages;
mod memory;
mod pids;
mod rdt_class;
mod unified;
