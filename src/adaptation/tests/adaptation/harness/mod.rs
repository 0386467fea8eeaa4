//! Test harness: an adaptation, a manager that records its calls, and scripted plugins.

mod log;
mod manager;
mod messages;
mod script;
mod start;
mod sync;

pub(crate) use log::Log;
pub(crate) use messages::{annotate, container, pod, shares};
pub(crate) use script::{Quiet, Script, unimplemented};
pub(crate) use start::{Harness, Peer};
pub(crate) use sync::{Gate, run_until_idle};
