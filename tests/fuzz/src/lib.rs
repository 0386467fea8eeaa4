//! What the fuzz targets share: parts of an input ([`Input`]), messages made of any bytes, and
//! their way back to bytes ([`write`]).
//!
//! A target is a file of `fuzz_targets/`: any bytes in, and a panic where an invariant of a crate
//! does not hold. Encoded messages make poor inputs, since hardly a change of them decodes; so
//! targets that are not about decoding build their messages from a notation in which every string
//! of bytes stands for some message. The library knows nothing of libFuzzer.

#![forbid(unsafe_code)]

mod build;
pub mod frames;
pub mod host;
mod input;
pub mod json;
pub mod proto;
pub mod write;

pub use input::Input;
