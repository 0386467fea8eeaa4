//! Conformance tests of NRI for any runtime that speaks it.
//!
//! The program connects scripted plugins to the NRI socket of a runtime, creates containers through
//! a [`driver`], and compares what containers and plugins got with what a [`case`] expects. It
//! prints a matrix of cases and runtimes. It starts no engine: `run.sh` beside it does. Start from
//! [`run::Runner`].

#![deny(unsafe_code)]

pub mod case;
pub mod cli;
pub mod driver;
mod error;
pub mod observe;
pub mod plugin;
pub mod report;
pub mod run;
mod vectors;

pub use error::Error;
