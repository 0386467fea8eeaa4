//! Description of every key of the configuration file, and its reference as Markdown.
//!
//! `docs/configuration.md` is generated from it. Tests compare the keys with those of the model:
//! none is missing, and each example and default is accepted.

mod keys;
mod markdown;
mod plugin_keys;
mod sections;
mod types;

pub use markdown::{key_reference, wrapped};
pub use sections::sections;
pub use types::{DefaultValue, KeyDescription, KeyKind, SectionDescription};
