//! Creations in `mode = "shadow"`: logs the changes that would have been made.

use crate::{
    audit::ChangesByPlugin,
    error::Error,
    resources::{changes::all_owners, description::described},
    service::Service,
    verb::creation::{adjusted_config::Agreed, changes::creation_changes, draft::Draft},
};
use nri_api::proto::{Container, ContainerEviction, OwningPlugins};
use nri_files::{AuditEvent, AuditLine, FieldChange};
use nri_merge::CreateOutcome;
use serde_json::Value;

/// Maximum number of changes that are logged for one `config.json`: enough to show what plugins
/// change.
const MAX_LOGGED_CHANGES: usize = 100;

impl Service {
    /// Logs the changes that a creation's outcome would have made.
    pub(super) async fn log_shadow(&self, draft: &Draft, agreed: Agreed) {
        let (container, pod) = (&draft.key.id, draft.pod_id());
        let Agreed { mut outcome, host } = agreed;
        let adjusted = match host {
            Ok(host) => self.adjust_checked(draft, &mut outcome, &host).await,
            Err(error) => Err(error.into()),
        };
        match adjusted {
            Ok(adjusted) => {
                let hook = draft.hook.as_ref().map(|hook| hook.program.as_path());
                let (before, after) = (draft.config.value(), adjusted.config.value());
                let changes = creation_changes(before, after, &outcome, hook);
                log_changes(draft, &changes);
                let line = draft.audit_line(AuditEvent::WouldAdjust);
                self.audit_changes(&line, draft.verb.name(), changes);
            }
            Err(error) => {
                self.audit_would_refuse(draft, &error);
                let error = error.line(container);
                tracing::info!(container, pod, error, "shadow: would be refused");
            }
        }
        for update in &outcome.updates {
            let (container, fields) = (&update.container_id, described(update));
            let plugin = outcome.owners.owners.get(container).map(all_owners).unwrap_or_default();
            tracing::info!(container, plugin, fields, "shadow: would be updated");
        }
        for ContainerEviction { container_id: container, reason, .. } in &outcome.evictions {
            let plugin = outcome.evictors.get(container).map(ToString::to_string);
            tracing::info!(container, plugin, reason, "shadow: would be evicted");
        }
    }

    /// Writes what would have refused a creation to the audit log.
    pub(super) fn audit_would_refuse(&self, draft: &Draft, error: &Error) {
        self.audit_refusal(draft.audit_line(AuditEvent::WouldRefuse), draft.verb.name(), error);
    }
}

/// Logs changes, each with its plugin. Values of environment variables are masked: they are often
/// secrets, and logs are read by more people than a container's `config.json`.
fn log_changes(draft: &Draft, changes: &ChangesByPlugin) {
    let (container, pod) = (&draft.key.id, draft.pod_id());
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

/// Returns the outcome of a creation that no plugin adjusts.
pub(super) fn unadjusted(container: Container) -> CreateOutcome {
    let request = nri_api::proto::CreateContainerRequest {
        container: Some(container).into(),
        ..Default::default()
    };
    let mut outcome =
        nri_merge::CreateMerge::new(Default::default(), request.container.unwrap_or_default())
            .finish();
    outcome.owners = OwningPlugins::default();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
