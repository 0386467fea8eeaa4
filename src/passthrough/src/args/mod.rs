//! The command line of low-level runtimes: flags, the arguments up to the verb, and the arguments
//! of `exec`.
//!
//! Nothing here performs I/O. Start from [`globals::scan`].

pub mod exec_args;
pub mod flags;
pub mod globals;
pub mod options;
pub mod verb_args;
pub mod verbs;
