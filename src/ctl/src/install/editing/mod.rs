//! Edits of configuration files: single values change, the rest of the text stays as it is.
//!
//! Start from [`file::ConfigFile`]. Which values change is decided in `planning`.

pub(super) mod diff;
pub(super) mod error;
pub(super) mod file;
mod json;
mod lines;
mod toml;
