//! Low-level runtimes of tests: real ones, a fake one, and one that pauses.

pub(crate) mod fake_runtime;
pub(crate) mod low_level;
pub(crate) mod paused_runtime;
