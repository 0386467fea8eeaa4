//! Edits of configuration files: single values change, the rest of the text stays.
//!
//! Start from [`file::ConfigFile`].

pub(super) mod error;
pub(super) mod file;
mod json;
mod lines;
mod toml;
