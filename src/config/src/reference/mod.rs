//! Description of every key of the configuration file, and its reference as Markdown.
//!
//! `docs/configuration.md` is generated from it. Tests compare the keys with those of the model:
//! none is missing, and each example and default is accepted.

mod keys;
mod markdown;
mod plugin_keys;
mod types;

pub use markdown::{key_reference, wrapped};
pub use types::{DefaultValue, KeyDescription, KeyKind, SectionDescription};

/// The sections of the file, in the order of the reference.
pub fn sections() -> Vec<&'static SectionDescription> {
    keys::SECTIONS.iter().chain([&plugin_keys::PLUGIN]).collect()
}
