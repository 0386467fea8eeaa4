//! The command line of a call, parsed by the tables and scanners of `nri-args`.
//!
//! Nothing here performs I/O. Start from [`CommandLine::scan`].

pub(crate) mod command_line;
pub(crate) mod replaced;

pub(crate) use command_line::CommandLine;
