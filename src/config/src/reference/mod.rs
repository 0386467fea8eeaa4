//! Descriptions of all keys of the configuration file, and the reference in Markdown.
//!
//! `docs/reference/configuration.md` and `packaging/config.toml` are generated from the doc
//! comments of the types of the file, which are declared by `section!` and `choices!`. Tests
//! check that the parser accepts each example and default.

mod commented;
mod markdown;
mod section;
mod sections;
mod types;

pub use commented::commented_configuration;
pub use markdown::{key_reference, wrapped};
pub(crate) use section::{Section, choices, section};
pub use sections::sections;
pub use types::{DefaultValue, KeyDescription, KeyKind, SectionDescription};
