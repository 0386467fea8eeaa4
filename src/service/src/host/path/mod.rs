//! Lookups of paths that anyone may choose, in a child process with a time limit: start from
//! `probe.rs`.

pub mod lookup;
pub mod probe;
mod walk;
