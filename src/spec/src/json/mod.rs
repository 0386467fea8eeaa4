//! Untyped JSON: typed reads, edits in place, lists of named entries, and numbers by value.

pub(crate) mod edit;
pub(crate) mod named;
pub(crate) mod number;
pub(crate) mod read;
pub(crate) mod wrong_type;
