//! `exec`: plugins' environment variables and rlimits are applied to the process file.

mod adapt;
mod process;

pub(crate) use adapt::adapt;
