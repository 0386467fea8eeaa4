//! The list of all sections.

use super::{keys, plugin_keys, types::SectionDescription};

/// Returns the sections of the file, in the order of the reference.
pub fn sections() -> Vec<&'static SectionDescription> {
    keys::SECTIONS.iter().chain([&plugin_keys::PLUGIN]).collect()
}
