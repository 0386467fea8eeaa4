//! Descriptions of all keys of the configuration file, and the reference in Markdown.
//!
//! `docs/reference/configuration.md` and `packaging/config.toml` are generated from this module.
//! Tests check that every key of the model is described, and that the parser accepts each example
//! and default.

mod commented;
mod container_keys;
mod keys;
mod markdown;
mod plugin_keys;
mod pod_keys;
mod sections;
mod types;

pub use commented::commented_configuration;
pub use markdown::{key_reference, wrapped};
pub use sections::sections;
pub use types::{DefaultValue, KeyDescription, KeyKind, SectionDescription};
