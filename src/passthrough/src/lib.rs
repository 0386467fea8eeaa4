//! Decides, without a C library and without a heap, whether the wrapper becomes the runtime, and
//! which one: in calls that are passed through unchanged, and if `nrid` replies so.
//!
//! The start of a C library costs more than all the rest of such a call: it reads properties of the
//! processor with an instruction that a virtual machine has to emulate. So the wrapper decides
//! before the C library starts. This crate is therefore `no_std`, and makes system calls only.
//!
//! The crate decides only usual calls. It leaves to the wrapper, after the C library's start: our
//! own flags, errors of any kind, calls by users other than root, links in the path of the
//! configuration, uncommon forms of TOML, and verbs with an event, except that [`decide`] sends the
//! request of a usual `create`, `start` or `delete`.
//! Where this crate decides, the wrapper would decide the same, which tests of the wrapper check.
//! The wrapper reads all command lines with [`args`], and uses [`names`].

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod args;
mod bundle;
mod configuration;
mod connection;
mod decision;
mod event;
mod exec_marker;
mod files;
mod json;
pub mod names;
mod path_buffer;
mod runtime;
mod settings;
mod state_dir;
mod variables;

pub use connection::Sent;
pub use decision::{BorrowedCall, Decision, decide};
pub use path_buffer::PathBuffer;
