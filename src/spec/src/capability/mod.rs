//! Capabilities of low-level runtimes: a table of runtimes and versions, and the check of an
//! adjustment against it.
//!
//! The `features` verb does not suffice: old crun has none, and runc's does not mention schedulers
//! or I/O priorities. So the rows of the table were found by setting each field alone in an OCI
//! config, running it, and reading back from inside whether it was effective, refused, or ignored;
//! for what could not be run, the sources were read. `integration/tests/capabilities.rs` repeats
//! the former with the runtimes of a machine.
//!
//! * Only what the adjustment changed is checked, not what the engine requested.
//! * What is not in the table passes: fields that all runtimes have, and values that runtimes
//!   refuse with a clear message.
//! * An unknown runtime passes with everything, and one of unknown version with everything that
//!   some version of it supports: nothing is refused on a guess.
//!
//! Start from [`check`]. The rows are in `table`; `requested` finds features in an OCI config.

mod check;
mod host;
mod requested;
mod table;
#[cfg(test)]
mod tests;
mod version;

pub use check::{Unsupported, UnsupportedFields, check};
pub use host::HostCapabilities;
pub use table::{FILES, Feature, Lack, lack};
pub use version::{RuntimeKind, RuntimeVersion, Version};
