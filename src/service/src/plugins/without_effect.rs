//! What plugins request of containers without effect, in the audit log: what their policies
//! withhold, updates that contradict those of other plugins, and parts that no update has. Updates
//! that fail when they are made are in `update.rs`.

use crate::plugins::{description::described, requests::PluginRequests, update::MAX_AUDITED};
use nri_adaptation::WithheldBy;
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate},
};
use nri_files::{AuditEvent, AuditLine};
use nri_merge::{FailedUpdate, Ignored};

/// Returns why what a plugin requests has no effect, in words of the audit log.
pub fn reason(by: WithheldBy) -> &'static str {
    match by {
        WithheldBy::Observe => "observed",
        WithheldBy::Scope => "outside its scope",
    }
}

impl PluginRequests {
    /// Writes the updates and evictions that the policy of a plugin withholds.
    pub fn audit_withheld(
        &self,
        plugin: &PluginId,
        by: WithheldBy,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) {
        if !self.resources.audit.is_enabled() {
            return;
        }
        let by = reason(by);
        let update = |update: &ContainerUpdate| {
            let fields = described(update);
            let of = if fields.is_empty() { "" } else { " of " };
            (update.container_id.clone(), format!("update{of}{fields}: {by}"))
        };
        let eviction = |eviction: &ContainerEviction| {
            (eviction.container_id.clone(), format!("eviction: {by}"))
        };
        let all = updates.iter().map(update).chain(evictions.iter().map(eviction));
        for (container, what) in all.take(MAX_AUDITED) {
            let line = self.line_about(&container, AuditEvent::Ignored);
            self.write_ignored(line, plugin, what);
        }
        let more = (updates.len() + evictions.len()).saturating_sub(MAX_AUDITED);
        if more > 0 {
            let line = AuditLine { event: AuditEvent::Ignored, ..AuditLine::default() };
            self.write_ignored(line, plugin, format!("{more} more updates and evictions: {by}"));
        }
    }

    /// Writes parts of replies that no update has.
    pub fn audit_ignored(&self, all: &[Ignored]) {
        if self.resources.audit.is_enabled() {
            for Ignored { plugin, container, what } in all {
                let line = self.line_about(container, AuditEvent::Ignored);
                self.write_ignored(line, plugin, what.clone());
            }
        }
    }

    /// Writes to the log and to the audit log which updates with `ignore_failure` contradict those
    /// of other plugins.
    pub fn report_conflicts(&self, failed: &[FailedUpdate]) {
        let Some(FailedUpdate { plugin, update, error }) = failed.first() else { return };
        let (container, failed_updates) = (&update.container_id, failed.len());
        tracing::warn!(%plugin, container, failed = failed_updates, %error, "updates ignored");
        if !self.resources.audit.is_enabled() {
            return;
        }
        for FailedUpdate { plugin, update, error } in failed.iter().take(MAX_AUDITED) {
            let line = self.line_about(&update.container_id, AuditEvent::Refusal);
            let (plugin, request) = (plugin.to_string(), "plugin".to_owned());
            let message = error.to_string();
            self.resources.audit.write(AuditLine { plugin, request, message, ..line });
        }
    }

    fn write_ignored(&self, line: AuditLine, plugin: &PluginId, what: String) {
        let (plugin, request) = (plugin.to_string(), "plugin".to_owned());
        self.resources.audit.write(AuditLine { plugin, request, ignored: vec![what], ..line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        resources::manager::ResourceManager,
        settings::load::Settings,
        state::{external_plugins::ExternalPlugins, registry::Registry, store::Store},
    };
    use nri_api::opt;
    use nri_files::AUDIT_LOG;
    use nri_merge::MergeError;
    use std::{fs, path::Path, sync::Arc, time::Duration};

    fn requests(dir: &Path) -> PluginRequests {
        let (registry, _) = Registry::load(Store::read_only(dir));
        let config_file = dir.join("config.toml");
        fs::write(&config_file, "").unwrap();
        let settings = Settings::load(Some(&config_file), Some(dir)).unwrap();
        let (audit, config) = (Audit::start(&settings), nri_config::Config::default());
        let manager = ResourceManager::new(Arc::new(registry), audit, &config);
        PluginRequests::new(Arc::new(manager), Arc::new(ExternalPlugins::none()))
    }

    /// Returns event, container, and the rest of each line.
    fn lines(requests: &PluginRequests, dir: &Path) -> Vec<String> {
        requests.resources.audit.flush(Duration::from_secs(10));
        let text = fs::read_to_string(dir.join(AUDIT_LOG)).unwrap();
        let line = |line: &str| {
            let line: AuditLine = serde_json::from_str(line).unwrap();
            assert_eq!((&*line.plugin, &*line.request), ("10-a", "plugin"));
            let what = [line.ignored.join(","), line.message].concat();
            format!("{} {} {what}", line.event.name(), line.container)
        };
        text.lines().map(line).collect()
    }

    fn update(container: &str) -> ContainerUpdate {
        ContainerUpdate { container_id: container.to_owned(), ..Default::default() }
    }

    #[tokio::test]
    async fn what_a_policy_withholds_has_lines_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let requests = requests(dir.path());
        let plugin = PluginId::from_file_name("10-a").unwrap();
        let mut limited = update("c1");
        let resources = limited.linux.mut_or_insert_default().resources.mut_or_insert_default();
        resources.memory.mut_or_insert_default().limit = opt(Some(7));
        let eviction = ContainerEviction { container_id: "c2".into(), ..Default::default() };
        let updates = [limited, update("c3")];
        requests.audit_withheld(&plugin, WithheldBy::Observe, &updates, &[eviction]);
        let expected = [
            "ignored c1 update of memory.limit=7: observed",
            "ignored c3 update: observed",
            "ignored c2 eviction: observed",
        ];
        assert_eq!(lines(&requests, dir.path()), expected);
        let many = vec![update("c"); MAX_AUDITED + 2];
        requests.audit_withheld(&plugin, WithheldBy::Scope, &many, &[]);
        let lines = lines(&requests, dir.path());
        assert_eq!(lines.len(), expected.len() + MAX_AUDITED + 1);
        let last = "ignored  2 more updates and evictions: outside its scope";
        assert_eq!(lines.last().unwrap(), last);
    }

    #[tokio::test]
    async fn conflicts_and_ignored_parts_have_lines() {
        let dir = tempfile::tempdir().unwrap();
        let requests = requests(dir.path());
        let plugin = PluginId::from_file_name("10-a").unwrap();
        let error = MergeError::UpdateOfCreated { plugin: plugin.clone(), container: "c1".into() };
        let message = error.to_string();
        let failed = FailedUpdate { plugin: plugin.clone(), update: update("c1"), error };
        requests.report_conflicts(&[failed]);
        let what = "update.linux.resources.devices".to_owned();
        requests.audit_ignored(&[Ignored { plugin, container: "c2".into(), what: what.clone() }]);
        let expected = [format!("refusal c1 {message}"), format!("ignored c2 {what}")];
        assert_eq!(lines(&requests, dir.path()), expected);
    }
}
