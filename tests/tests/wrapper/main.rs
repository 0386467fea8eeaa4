//! The wrapper and the hook, from the outside: the real programs, a fake runtime that writes down
//! how it was called, and a control server that plays `nrid` by a script.
//!
//! The main idea is an oracle: the fake runtime is called once directly and once through the
//! wrapper, and must notice no difference.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // all of it is tests

mod begin;
mod exec;
mod fake;
mod finding;
mod hook;
mod lab;
mod logging;
mod out_of_service;
mod signals;
mod transparent;
mod unreachable;
mod update;
