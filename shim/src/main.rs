//! `nri-container-runtime`: runs in place of a low-level OCI runtime, asks `nrid` what should
//! change, and runs the real one.
//!
//! A caller sees what it would see from the real runtime: argv, environment, working directory,
//! descriptors, stdio, signals, exit code and `--log` are passed through. Verbs that carry no event
//! are a plain `execve`; only `exec` may get a changed process file ([`exec`]). Which changes
//! plugins request, and how `config.json` is rewritten, is decided in `nrid`: nothing here knows
//! NRI. No async runtime and no argument parser, since this program starts at every call of an
//! engine.
//!
//! Start from [`wrapper::run`].

// Rust's own start-up would replace closed stdio by /dev/null and ignore SIGPIPE before this
// program could see what it inherited, and the real runtime would inherit both. See `entry`.
#![cfg_attr(not(test), no_main)]
// The test harness has its own entry, which leaves the program unused.
#![cfg_attr(test, allow(dead_code))]

mod args;
mod bypass;
mod call;
mod entry;
mod error;
mod event;
mod exec;
mod invocation;
mod log_line;
mod runtime;
mod wrapper;
