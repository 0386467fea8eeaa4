//! Runs the real runtime in place of this process or as its child.

pub(crate) mod memory;
mod signals;
mod spawn;
pub(crate) mod stdio;
mod sys;
mod target;

pub(crate) use signals::die_by;
pub(crate) use spawn::spawn_and_wait;
pub(crate) use sys::ends_within;
pub(crate) use target::Target;
