//! What plugins would have changed or refused in a creation, if their policies did not observe
//! them, or if the container were in their scopes: for the audit log, and for a dry run. The
//! adaptation has logged it already, without values.

use crate::{
    audit::ChangesByPlugin,
    error::Error,
    plugins::without_effect::reason,
    service::Service,
    verb::creation::{draft::Draft, plan::changes_by_plugin},
};
use nri_adaptation::{RequestContext, WithheldReply};
use nri_files::{AuditEvent, AuditLine};

impl Service {
    /// Writes to the audit log what replies to a creation would have changed or refused.
    pub(super) async fn audit_withheld(&self, draft: &Draft, context: &RequestContext) {
        for reply in context.take_withheld() {
            let message = reason(reply.by).to_owned();
            let line = AuditLine { message, ..draft.audit_line(AuditEvent::WouldAdjust) };
            let plugin = reply.plugin.to_string();
            match self.would_change(draft, reply).await {
                Ok(changes) => self.audit.write_changes(&line, draft.verb.name(), changes),
                Err(error) => {
                    tracing::info!(
                        container = draft.key.id,
                        pod = draft.pod_id(),
                        plugin,
                        error = error.line(&draft.key.id),
                        "{}: would be refused",
                        line.message
                    );
                    self.audit_would_refuse(&line, &error);
                }
            }
        }
    }

    /// Describes what replies to a creation would have changed or refused.
    pub(super) async fn described_withheld(
        &self,
        draft: &Draft,
        context: &RequestContext,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for reply in context.take_withheld() {
            let (plugin, by) = (reply.plugin.clone(), reason(reply.by));
            let changes = self.would_change(draft, reply).await;
            lines.extend(match changes {
                Ok(changes) => changes
                    .into_values()
                    .flatten()
                    .map(|change| format!("{plugin}: {}: {by}", change.field))
                    .collect(),
                Err(error) => {
                    vec![format!("{plugin}: its refusal: {by}: {}", error.line(&draft.key.id))]
                }
            });
        }
        lines
    }

    /// Returns the changes of one plugin.
    async fn would_change(
        &self,
        draft: &Draft,
        reply: WithheldReply,
    ) -> Result<ChangesByPlugin, Error> {
        let plugin = reply.plugin.to_string();
        let plan = self.plan(draft, self.probe_host(draft, *reply.would_be?).await).await;
        let mut changes = changes_by_plugin(draft, &plan.outcome, &plan.adjusted?);
        changes.retain(|by, _| *by == plugin);
        Ok(changes)
    }
}
