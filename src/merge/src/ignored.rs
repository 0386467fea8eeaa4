//! Parts of a reply that have no effect: fields that this version of the protocol does not know,
//! device cgroup rules in an update, and a memory limit of 0. The merge reports these parts;
//! upstream NRI drops them silently.

use crate::unknown::Unknown;
use nri_api::{
    Packable, Packed,
    proto::{ContainerAdjustment, ContainerUpdate},
};

/// Limit of paths recorded per plugin and request: enough to find the mistake in a large reply.
pub(crate) const MAX_PATHS: usize = 16;

/// Returns the paths of the fields of an adjustment that have no effect.
pub(crate) fn in_adjustment(requested: &ContainerAdjustment) -> Vec<String> {
    let mut found = Vec::new();
    if requested.linux.resources.memory.limit.as_ref().is_some_and(|limit| limit.value == 0) {
        found.push("adjust.linux.resources.memory.limit: a limit of 0 is ignored".to_owned());
    }
    if requested.has_unknown() {
        add_unknown_fields(requested, "adjust", &mut found);
    }
    found
}

/// Returns the paths of the fields of an update that have no effect.
pub(crate) fn in_update(requested: &ContainerUpdate) -> Vec<String> {
    let mut found = Vec::new();
    if !requested.linux.resources.devices.is_empty() {
        found.push("update.linux.resources.devices".to_owned());
    }
    if requested.has_unknown() {
        add_unknown_fields(requested, "update", &mut found);
    }
    found
}

/// Adds the path of each unknown field once. The last component of the path is the field's number.
fn add_unknown_fields<M: Packable>(message: &M, name: &str, found: &mut Vec<String>) {
    let paths = Packed::new(message).unknown_fields(MAX_PATHS.saturating_sub(found.len()));
    found.extend(paths.into_iter().map(|path| format!("{name}.{path}")));
}
