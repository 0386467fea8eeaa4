//! What the wrapper decides, without a C library and without a heap: the command line, the runtime,
//! the settings that `nrid` publishes, the request to `nrid`.
//!
//! The start of a C library costs more than all the rest of a call that is passed through: it reads
//! properties of the processor with an instruction that a virtual machine has to emulate. So the
//! wrapper decides before the C library starts. This crate is therefore `no_std`, and makes system
//! calls only.
//!
//! [`decide`] handles usual calls. It leaves to the wrapper, after the C library's start: our own
//! flags, errors of any kind, calls by users other than root, calls for which no settings are
//! published, break-glass, and `run`, `restore` and `update`. The wrapper then uses the same
//! functions of this crate, with settings that it makes from the configuration file if none are
//! published.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod args;
pub mod bundle;
mod connection;
mod decision;
mod digest;
pub mod environment;
pub mod exec_marker;
pub mod id;
pub mod json;
pub mod names;
mod path_buffer;
pub mod published;
pub mod request;
pub mod runtime;
pub mod settings;

pub use connection::{EXPECTED_REPLY, Sent, is_trusted_peer};
pub use decision::{BorrowedCall, Decision, base_name, decide};
pub use path_buffer::{LongPath, PathBuffer};
pub use settings::CallSettings;
