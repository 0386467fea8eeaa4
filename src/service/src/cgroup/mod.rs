//! Control groups of containers: their directories, the content of their files, OOM kills.

pub mod files;
pub mod kernel_log;
pub mod location;
pub mod oom;
pub mod oom_events;
