//! Plugins without which a container is created: recorded with the container, and logged.

use crate::{service::Service, state::record::Record};
use nri_adaptation::{AbsentPlugin, RequestContext};
use nri_api::PluginId;
use nri_files::MissedPlugin;
use std::collections::BTreeSet;

impl Service {
    /// Returns the plugins without which a container is created: launched plugins that do not run,
    /// plugins that did not reply, and external plugins that have left. `consulted` are the plugins
    /// that had a part in the creation.
    pub(super) fn missed(
        &self,
        context: &RequestContext,
        consulted: &[PluginId],
    ) -> Vec<MissedPlugin> {
        let mut missed = context.missed();
        for AbsentPlugin { plugin, why } in self.plugins.requests.external.absent() {
            let is_known = missed.iter().any(|other| other.plugin == plugin);
            if !is_known && !consulted.contains(&plugin) {
                missed.push(AbsentPlugin { plugin, why });
            }
        }
        missed.sort_by(|a, b| a.plugin.cmp(&b.plugin));
        missed
            .into_iter()
            .map(|AbsentPlugin { plugin, why }| MissedPlugin { plugin: plugin.to_string(), why })
            .collect()
    }
}

/// Logs a creation to which plugins have agreed. Called after the commit, for which other creations
/// wait.
pub(super) fn log_creation(record: &Record) {
    let (container, pod) = (&record.key.id, &record.pod_id);
    for MissedPlugin { plugin, why } in &record.missed {
        tracing::warn!(container, pod, plugin, why, "container is created without plugin");
    }
    let plugins = plugins_of(record).into_iter().collect::<Vec<_>>().join(" ");
    if plugins.is_empty() {
        tracing::debug!(container, pod, "container is created unadjusted");
    } else {
        tracing::info!(container, pod, plugins, "container is adjusted");
    }
}

/// Returns the names of the plugins that have adjusted a container.
fn plugins_of(record: &Record) -> BTreeSet<&str> {
    let owners = &record.owners;
    let compound = owners.compound.values().flat_map(|keys| keys.owners.values());
    owners.simple.values().chain(compound).map(String::as_str).collect()
}
