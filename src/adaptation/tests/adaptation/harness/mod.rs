//! Test harness: an adaptation, a `ContainerManager` that records how it is called, and scripted
//! plugins.

mod log;
mod manager;
mod messages;
mod script;
mod start;
mod sync;

pub(crate) use log::Log;
pub(crate) use messages::{annotate, container, pod, shares};
pub(crate) use script::{Hangs, Quiet, Script, unimplemented};
pub(crate) use start::{Harness, Peer};
pub(crate) use sync::{Gate, run_until_idle};
