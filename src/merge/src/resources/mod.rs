//! Groups of fields of `LinuxResources`: those whose entries have keys, one file per group, and the
//! list of groups, which has all others.
//!
//! Each file has the functions `claim` and `apply`, as in [`crate::fields`]. Device rules
//! ([`device_rules`]) are part of the message, but not of the list: only adjustments set rules of
//! the device cgroup.

pub(crate) mod device_rules;
pub(crate) mod groups;
mod hugepages;
mod unified;
