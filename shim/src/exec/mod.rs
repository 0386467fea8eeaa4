//! `exec`: applies to the process file the environment variables and rlimits that plugins have set.

mod adapt;
mod process;

pub(crate) use adapt::adapt;
