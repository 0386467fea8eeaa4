//! Tests of the programs `nri-container-runtime` and `nri-oci-hook`, with a fake runtime that
//! records its calls and a scripted control server in place of `nrid`.
//!
//! The oracle of transparency is a direct call of the fake runtime: a call through the wrapper must
//! be the same.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // tests only

mod begin;
mod bypass;
mod exec;
mod fake_runtime;
mod harness;
mod hook;
mod logging;
mod published;
mod runtime_error;
mod runtime_search;
mod signals;
mod transparent;
mod unreachable;
mod update;
mod users;
