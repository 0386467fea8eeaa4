//! Functions for untyped JSON: typed reads, edits in place, lists of named entries, numbers by
//! value, and ambiguous keys.

pub(crate) mod edit;
pub(crate) mod go_keys;
pub(crate) mod named;
pub(crate) mod number;
pub(crate) mod read;
pub(crate) mod wrong_type;
