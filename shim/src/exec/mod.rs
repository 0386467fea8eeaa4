//! `exec`: applies the environment variables and rlimits that plugins set to the process file.

mod adapt;
mod process;

pub(crate) use adapt::adapt;
