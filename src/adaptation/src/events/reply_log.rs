//! Log lines at level `debug` for what plugins request in their replies: one for each adjustment,
//! update and eviction.
//!
//! The lines name fields and no values, because values of environment variables are often secrets.

use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, CreateContainerResponse};
use tracing::{Level, debug, enabled};

use crate::policy::fields::{fields_set, group_of, resources_set};

/// Logs the adjustment, the updates and the evictions in the reply to a creation.
pub(crate) fn log_creation(
    plugin: &PluginId,
    (container, pod): (&str, &str),
    reply: &CreateContainerResponse,
) {
    // To find the fields takes longer than the rest of a request.
    if !enabled!(Level::DEBUG) {
        return;
    }
    if let Some(adjust) = reply.adjust.as_ref() {
        debug!(%plugin, container, pod, fields = names(fields_set(adjust)), "adjustment");
    }
    log_updates(plugin, &reply.update, &reply.evict);
}

/// Logs updates and evictions in a reply.
pub(crate) fn log_updates(
    plugin: &PluginId,
    updates: &[ContainerUpdate],
    evictions: &[ContainerEviction],
) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    for update in updates {
        let resources = update.linux.resources.as_ref();
        let fields = resources.map(|r| names(resources_set(r)));
        debug!(%plugin, container = update.container_id, fields, "update requested");
    }
    for eviction in evictions {
        let (container, reason) = (&eviction.container_id, &eviction.reason);
        debug!(%plugin, container, reason, "eviction requested");
    }
}

/// Returns the names that policies have for the fields, separated by blanks.
fn names(paths: Vec<String>) -> String {
    let mut names: Vec<_> = paths.iter().map(|path| group_of(path).unwrap_or(path)).collect();
    names.dedup();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fields::tests::each_field;

    #[test]
    fn each_field_of_an_adjustment_is_named_as_in_policies() {
        each_field(&mut |path, adjust| {
            assert_eq!(names(fields_set(adjust)), group_of(path).unwrap(), "{path}");
        });
    }
}
