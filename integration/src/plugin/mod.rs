//! Plugins of tests: programs, journals of the events that they received, and views of them.

pub(crate) mod events;
pub(crate) mod journal;
pub(crate) mod programs;
pub(crate) mod sessions;
pub(crate) mod versions;
pub(crate) mod view;
