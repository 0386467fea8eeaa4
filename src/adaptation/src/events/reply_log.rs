//! Log lines for what plugins request in their replies: at level `debug` one for each adjustment,
//! update and eviction, at level `info` one for all that has no effect in a reply.
//!
//! The lines name fields and no values, because values of environment variables are often secrets.

use crate::error::AdaptError;
use nri_api::PluginId;
use nri_api::proto::{
    ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerResponse,
};
use tracing::{Level, debug, enabled, info};

use crate::policy::fields::{fields_set, group_of, resources_set};
use crate::policy::plugin_policy::WithheldBy;
use crate::policy::withheld::Withheld;

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

/// Logs the adjustment of a container that has no effect. Returns whether it would change any
/// field.
pub(crate) fn log_withheld_adjustment(
    plugin: &PluginId,
    by: WithheldBy,
    (container, pod): (&str, &str),
    adjust: &ContainerAdjustment,
) -> bool {
    let fields = names(fields_set(adjust));
    if !fields.is_empty() {
        info!(%plugin, container, pod, fields, "{}: would be adjusted", word(by));
    }
    !fields.is_empty()
}

/// Logs updates and evictions that have no effect, in one line: a plugin may request thousands.
pub(crate) fn log_withheld(plugin: &PluginId, by: WithheldBy, withheld: &Withheld) {
    let Withheld { updates, evictions } = withheld;
    if let Some(ContainerUpdate { container_id: container, linux, .. }) = updates.first() {
        let fields = linux.resources.as_ref().map(|resources| names(resources_set(resources)));
        let updates = updates.len();
        info!(%plugin, container, fields, updates, "{}: would be updated", word(by));
    }
    if let Some(ContainerEviction { container_id: container, reason, .. }) = evictions.first() {
        let evictions = evictions.len();
        info!(%plugin, container, reason, evictions, "{}: would be evicted", word(by));
    }
}

/// Logs a refusal or failure that has no effect.
pub(crate) fn log_withheld_refusal(plugin: &PluginId, by: WithheldBy, refusal: &AdaptError) {
    info!(%plugin, %refusal, "{}: would be refused", word(by));
}

fn word(by: WithheldBy) -> &'static str {
    match by {
        WithheldBy::Observe => "observe",
        WithheldBy::Scope => "outside scope",
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
