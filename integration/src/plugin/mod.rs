//! Plugins of tests: their programs, the journals of the events that they received, and the state
//! of containers and pods that follows from a journal.

pub(crate) mod events;
pub(crate) mod journal;
pub(crate) mod programs;
pub(crate) mod samples;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod tutorial;
pub(crate) mod versions;
pub(crate) mod view;
pub(crate) mod wasm;
