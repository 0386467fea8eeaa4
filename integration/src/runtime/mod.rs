//! Low-level runtimes of tests: real runtimes, a fake runtime, and a runtime that pauses.

pub(crate) mod fake_runtime;
pub(crate) mod low_level;
pub(crate) mod paused_runtime;
