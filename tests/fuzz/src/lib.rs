//! Helpers of the fuzz targets: parts of an input ([`Input`]), messages built from arbitrary bytes,
//! and the writer of the bytes from which a message is built ([`write`]).
//!
//! A target is a file in `fuzz_targets/`. It takes arbitrary bytes, and panics if an invariant of a
//! crate does not hold. Encoded messages are poor inputs, since hardly any mutation of them
//! decodes. Targets that do not test decoding therefore build their messages from a notation in
//! which every sequence of bytes is a message. This library does not use libFuzzer.

#![forbid(unsafe_code)]

mod build;
pub mod frames;
pub mod host;
mod input;
pub mod json;
pub mod proto;
pub mod write;

pub use input::Input;
