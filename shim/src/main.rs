//! `nri-container-runtime`: the wrapper that engines call in place of a low-level OCI runtime. For
//! verbs with an event it requests the changes of plugins from `nrid`, then runs the real runtime.
//!
//! The wrapper is transparent to its caller: argv, environment, working directory, descriptors,
//! stdio, signals, exit code and `--log` are passed through. Verbs without an event are a plain
//! `execve`; only `exec` may get a changed process file ([`exec`]). `nrid` calls the plugins and
//! rewrites `config.json`; this program has no code for NRI. It has no async runtime and no
//! argument parser library, since it starts at every call of an engine.
//!
//! Start from [`wrapper::run`].

// Before `main`, Rust's start-up code would replace closed stdio by /dev/null and ignore SIGPIPE,
// and the real runtime would inherit both. See `entry`.
#![cfg_attr(not(test), no_main)]
// The test harness has another entry point, so the program's code is unused there.
#![cfg_attr(test, allow(dead_code))]

mod answers;
mod args;
mod bypass;
mod call;
mod entry;
mod error;
mod event;
mod exec;
mod heap;
mod help;
mod invocation;
mod log_line;
mod runtime;
mod runtime_error;
mod wrapper;

/// The order of the linker. Cargo links again when an included file changes.
const _: &str = include_str!("../short-calls.ld");
