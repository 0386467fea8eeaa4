//! Capabilities of low-level runtimes: a table of runtimes and versions, and the check of an
//! adjustment against it.
//!
//! The `features` verb does not suffice: old crun does not have it, and that of runc does not
//! mention schedulers or I/O priorities. So the rows of the table come from experiments: a
//! container was run with one field set, and the field was effective, refused or ignored. Where no
//! experiment was possible, the rows come from the sources. `integration/tests/capabilities.rs`
//! repeats the experiments with the installed runtimes.
//!
//! * Only what the adjustment changed is checked, not what the engine requested.
//! * Fields without a row pass: all runtimes support them, or refuse their values with a clear
//!   message.
//! * Nothing is refused on a guess: with an unknown runtime everything passes, and with an unknown
//!   version of a known runtime the conditions on versions are skipped.
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
