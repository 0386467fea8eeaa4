//! Shadow mode (`mode = "shadow"`): plugins receive all requests and notifications, and what they
//! reply is logged and changes nothing. All that it changes:
//!
//! * A request goes to all plugins, even after one has refused it, and refusals are logged
//!   ([`Service::request_context`], [`Service::log_refusals`]).
//! * What replies to a creation or to an engine's update would change is computed and checked as
//!   otherwise, and then logged ([`Service::log_would_adjust`], [`Service::log_would_update`]); the
//!   audit log has creations, too. Then the commit goes on as if no plugin had replied: in
//!   `verb/creation/commit.rs` and `verb/update/prepare.rs`, which decide by [`mode_of`].
//! * Updates and evictions that plugins request at a stop, or on their own, are logged
//!   ([`PluginRequests::commit`]). A plugin gets the updates of the latter kind back as failed.
//! * No plugin can refuse, so none is required for a start, and a container is created although
//!   its `config.json` cannot be sent to plugins
//!   ([`Settings::plugins_can_refuse`](crate::settings::load::Settings::plugins_can_refuse)).

use crate::{
    audit::ChangesByPlugin,
    error::{Error, ResourceError},
    plugins::{effects::Effects, requests::PluginRequests, update::UpdateFailure},
    service::Service,
    state::record::Record,
};
use nri_adaptation::{AdaptError, RequestContext};
use nri_config::Mode;
use nri_control::{DryRunEviction, DryRunUpdate};
use nri_files::{AuditEvent, AuditLine, FieldChange};
use serde_json::Value;

/// Maximum number of changes that are logged for one `config.json`: enough to show what plugins
/// change.
const MAX_LOGGED_CHANGES: usize = 100;

/// Returns the mode in which a request was begun. A reload may have changed the mode since.
pub fn mode_of(context: &RequestContext) -> Mode {
    if context.consults_all() { Mode::Shadow } else { Mode::Apply }
}

impl Service {
    /// Returns the context of a request to plugins. In shadow mode all plugins receive the request,
    /// even after one has refused, and all are notified of the container's further life.
    pub fn request_context(&self) -> RequestContext {
        match self.resource_manager.policy().mode {
            Mode::Apply => RequestContext::default(),
            Mode::Shadow => RequestContext::consult_all(),
        }
    }

    /// Logs the refusals of a request that shadow mode has ignored, and returns them.
    pub fn log_refusals(&self, context: RequestContext) -> Vec<AdaptError> {
        let refusals = context.into_refusals();
        for refusal in &refusals {
            tracing::info!(%refusal, "shadow: would be refused");
        }
        refusals
    }

    /// Logs what would be changed by a creation, or why it would be refused, also in the audit log.
    /// `line` names the container and the request.
    pub async fn log_would_adjust(
        &self,
        line: &AuditLine,
        pod: &str,
        changes: Result<ChangesByPlugin, Error>,
        effects: &Effects<'_>,
    ) {
        match changes {
            Ok(changes) => {
                log_changes(&line.container, pod, &changes);
                let line = AuditLine { event: AuditEvent::WouldAdjust, ..line.clone() };
                self.audit.write_changes(&line, &line.request, changes);
            }
            Err(error) => {
                self.audit_would_refuse(line, &error);
                log_refused(&line.container, pod, &error);
            }
        }
        self.plugins.requests.log_effects(effects).await;
    }

    /// Writes what would have refused a creation to the audit log. `line` names the container and
    /// the request.
    pub fn audit_would_refuse(&self, line: &AuditLine, error: &Error) {
        let line = AuditLine { event: AuditEvent::WouldRefuse, ..line.clone() };
        let request = line.request.clone();
        self.audit_refusal(line, &request, error);
    }

    /// Logs what would be updated in reply to an engine's update of a container, that one included,
    /// or why the update would be refused.
    pub async fn log_would_update(&self, container: &Record, effects: Result<&Effects<'_>, Error>) {
        match effects {
            Ok(effects) => self.plugins.requests.log_effects(effects).await,
            Err(error) => log_refused(&container.key.id, &container.pod_id, &error),
        }
    }
}

impl PluginRequests {
    /// Performs what plugins request of other containers, or in shadow mode logs it. Returns the
    /// updates that failed.
    pub async fn commit(&self, effects: &Effects<'_>) -> Vec<UpdateFailure> {
        match self.resources.policy().mode {
            Mode::Apply => {
                let failed = self.update_all(effects, None).await;
                self.evict_all(effects);
                failed
            }
            Mode::Shadow => {
                self.log_effects(effects).await;
                // The plugin of an unsolicited update gets an error. Updates in replies to an event
                // are only logged, because an error would refuse the event.
                let refused = effects.updates.iter().filter(|_| effects.is_unsolicited());
                let failure = |update| UpdateFailure { update, error: ResourceError::Shadow };
                let refused: Vec<_> = refused.cloned().map(failure).collect();
                self.report_failed(&refused, effects);
                refused
            }
        }
    }

    /// Logs updates and evictions that would be performed.
    async fn log_effects(&self, effects: &Effects<'_>) {
        let known = |id: &str| Some(self.resources.registry.by_nri_id(id)?.record());
        for DryRunUpdate { container, plugins, fields } in effects.described_updates() {
            if let Some(record) = known(&container) {
                let (container, pod) = (&record.key.id, &record.pod_id);
                let plugin = plugins.join(",");
                tracing::info!(container, pod, plugin, fields, "shadow: would be updated");
            }
            // Other tasks must run, too: a plugin may request thousands.
            tokio::task::yield_now().await;
        }
        for DryRunEviction { container, plugin, reason } in effects.described_evictions() {
            if let Some(record) = known(&container) {
                let (container, pod) = (&record.key.id, &record.pod_id);
                tracing::info!(container, pod, plugin, reason, "shadow: would be evicted");
            }
        }
    }
}

fn log_refused(container: &str, pod: &str, error: &Error) {
    let error = error.line(container);
    tracing::info!(container, pod, error, "shadow: would be refused");
}

/// Logs changes, each with its plugin. Values of environment variables are masked: they are often
/// secrets, and logs are read by more people than a container's `config.json`.
fn log_changes(container: &str, pod: &str, changes: &ChangesByPlugin) {
    let all = changes.iter().flat_map(|(plugin, changes)| changes.iter().map(move |c| (plugin, c)));
    for (plugin, change) in all.take(MAX_LOGGED_CHANGES) {
        let mut line = AuditLine { changes: vec![change.clone()], ..AuditLine::default() };
        line.mask_environment();
        let change = line.changes.iter().map(described_change).collect::<String>();
        tracing::info!(container, pod, plugin, change, "shadow: would change");
    }
}

/// Describes a change: field, old value, new value.
fn described_change(change: &FieldChange) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or("null".to_owned(), Value::to_string);
    format!("{}: {} -> {}", change.field, value(&change.before), value(&change.after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        resources::manager::ResourceManager,
        state::{external_plugins::ExternalPlugins, registry::Registry, store::Store},
    };
    use nri_api::{PluginId, proto::ContainerUpdate};
    use nri_config::Config;
    use serde_json::json;
    use std::sync::Arc;

    /// Its container does not exist, so that the update would fail in both cases.
    #[tokio::test]
    async fn an_unsolicited_update_fails_and_one_in_a_reply_is_only_logged() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::read_only(dir.path()));
        let config = Config { mode: Mode::Shadow, ..Config::default() };
        let resources = ResourceManager::new(Arc::new(registry), Audit::off(), &config);
        let external = Arc::new(ExternalPlugins::none());
        let requests = PluginRequests::new(Arc::new(resources), external);
        let plugin = PluginId::from_file_name("10-a").unwrap();
        let updates = [ContainerUpdate { container_id: "c1".into(), ..Default::default() }];
        let failed = requests.commit(&Effects::of_plugin(&plugin, &updates, &[])).await;
        assert!(matches!(&failed[..], [UpdateFailure { error: ResourceError::Shadow, .. }]));
        let (owners, evictors) = Default::default();
        let in_replies = Effects::of_replies(&updates, &[], &owners, &evictors);
        assert!(requests.commit(&in_replies).await.is_empty());
    }

    #[test]
    fn a_change_has_its_field_and_both_values() {
        let change = FieldChange {
            field: "pids.limit".to_owned(),
            before: Some(json!(50)),
            after: Some(json!(77)),
            ..FieldChange::default()
        };
        assert_eq!(described_change(&change), "pids.limit: 50 -> 77");
        let added = FieldChange { before: None, after: Some(json!("v")), ..change };
        assert_eq!(described_change(&added), r#"pids.limit: null -> "v""#);
    }
}
