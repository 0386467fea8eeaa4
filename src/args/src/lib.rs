//! The command line of low-level runtimes: flags, the arguments up to the verb, those of verbs with
//! an event and of `exec`, and container ids.
//!
//! Nothing here performs I/O. Start from [`globals::scan`].

#![forbid(unsafe_code)]

pub mod exec_args;
pub mod flags;
pub mod globals;
pub mod id;
pub mod options;
pub mod verb_args;
pub mod verbs;
