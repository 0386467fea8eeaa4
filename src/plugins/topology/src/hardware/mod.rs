//! What CPUs, caches and memory nodes the machine has, as the kernel shows them below
//! `/sys/devices`.

pub mod cpuset;
mod interrupts;
pub mod machine;
pub mod snapshot;
pub mod sysfs;
