//! Decides, without a C library and without a heap, whether the wrapper passes a call through
//! unchanged, and to which runtime.
//!
//! The start of a C library costs more than all the rest of such a call: it reads properties of the
//! processor with an instruction that a virtual machine has to emulate. So the wrapper decides
//! before the C library starts. This crate is therefore `no_std`, and makes system calls only.
//!
//! The crate decides only usual calls. [`runtime_of`] returns `None` for verbs with an event, our
//! own flags, errors of any kind, links in the path of the configuration, and uncommon forms of
//! TOML: the wrapper then decides after the C library's start. Where this crate decides, the
//! wrapper would decide the same, which a property test of the wrapper checks. The wrapper reads
//! all command lines with [`args`], and uses [`names`].

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod args;
mod configuration;
mod decision;
mod exec_marker;
mod files;
pub mod names;
mod path_buffer;
mod runtime;
mod settings;
mod variables;

pub use decision::{BorrowedCall, runtime_of};
pub use path_buffer::PathBuffer;
