//! The command line of low-level runtimes: their flags, the arguments up to the verb, and those of
//! `exec`.
//!
//! Nothing here performs I/O. Start from [`globals::scan`].

pub mod exec_args;
pub mod flags;
pub mod globals;
pub mod options;
pub mod verbs;
