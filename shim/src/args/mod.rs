//! The command line of low-level runtimes: their flags, and the parsed arguments of a call.
//!
//! Nothing here performs I/O. Start from [`CommandLine::scan`].

pub(crate) mod command_line;
pub(crate) mod exec_args;
pub(crate) mod flags;
pub(crate) mod id;
pub(crate) mod options;
pub(crate) mod verb_args;
pub(crate) mod verbs;

pub(crate) use command_line::CommandLine;
