//! Control groups of containers: where they are, what their files hold, kills for memory.

pub mod files;
pub mod location;
pub mod oom;
