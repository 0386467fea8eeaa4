//! The list of all sections.

use super::{container_keys, keys, plugin_keys, pod_keys, types::SectionDescription};

/// Returns the sections of the file, in the order of the reference.
pub fn sections() -> Vec<&'static SectionDescription> {
    let others = [&pod_keys::PODS, &container_keys::CONTAINERS, &plugin_keys::PLUGIN];
    keys::SECTIONS.iter().chain(others).collect()
}
