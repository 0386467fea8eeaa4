//! The calls of the wrapper that are plainly passed through: their command lines, and the decision,
//! made without a C library and without a heap, which runtime they go to.
//!
//! The start of a C library costs more than all the rest of such a call: it reads properties of the
//! processor by an instruction that a virtual machine has to emulate. So the wrapper decides before
//! it starts one, and this crate cannot use one: it is `no_std`, and makes system calls only.
//!
//! It handles what is usual, and leaves the rest to the wrapper ([`runtime_of`] returns `None`):
//! verbs with an event, our own flags, errors of any kind, links in the path of the configuration,
//! uncommon forms of TOML. Where it does decide, the wrapper would decide the same; a property test
//! of the wrapper compares both. Command lines ([`args`]) and names ([`names`]) are read by the
//! wrapper with the code of this crate.

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
