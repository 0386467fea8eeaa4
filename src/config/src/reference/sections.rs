//! The list of all sections.

use super::{keys, plugin_keys, pod_keys, types::SectionDescription};

/// Returns the sections of the file, in the order of the reference.
pub fn sections() -> Vec<&'static SectionDescription> {
    keys::SECTIONS.iter().chain([&pod_keys::PODS, &plugin_keys::PLUGIN]).collect()
}
