//! `exec`: compares it with the limits of its container, and applies to the process file the
//! environment variables and rlimits that plugins have set.

mod adapt;
mod limits;
mod process;

pub(crate) use adapt::adapt;
pub(crate) use limits::Excess;
