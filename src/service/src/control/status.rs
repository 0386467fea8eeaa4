//! The status that `nrictl status` shows.

use crate::{
    control::{
        plugin_calls,
        reload::{PLUGIN_DIR_TIMEOUT, PendingChanges},
    },
    host::process::resident_memory,
    process::program::Program,
    service::Service,
    state::registry::Counts,
};
use nri_adaptation::{OnFailure, PluginOrigin};
use nri_config::Mode;
use nri_control::{
    MissedContainers, PluginBudget, PluginFailurePolicy, PluginLimit, PluginStatus,
    PluginSynchronization, RequestedByPlugin, Status,
};
use nri_files::{MissedPlugin, OsText};
use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

impl Service {
    /// Returns the current status.
    pub async fn status(&self) -> Status {
        let (settings, process) = (self.settings(), &self.process);
        let program = process.program.as_ref();
        let pending = self.plugins.adaptation.pending_reload(PLUGIN_DIR_TIMEOUT).await;
        let plugin_dir_error = pending.as_ref().err().map(ToString::to_string);
        let mut pending = pending.unwrap_or_default();
        let idle_policies = std::mem::take(&mut pending.unmatched_policies);
        let PendingChanges { due, ignored } = self.pending_changes(pending);
        let Counts { pods, containers, ended, with_edited_bundle } = self.registry.counts();
        let calls = plugin_calls::of_all(&self.plugins.adaptation);
        // The process of a session that has ended is about to end, or may be another one already.
        let pid = |plugin: &nri_adaptation::PluginStatus| {
            plugin.pid.filter(|_| !plugin.state.has_ended())
        };
        let policy = |plugin: &nri_adaptation::PluginStatus| {
            plugin.id.as_ref().map(|id| self.plugins.adaptation.policy(id)).unwrap_or_default()
        };
        let plugins = self.plugins.adaptation.plugins().into_iter().map(|plugin| PluginStatus {
            observed: policy(&plugin).observe,
            scope: policy(&plugin).scope.map(|scope| scope.to_string()).unwrap_or_default(),
            calls: plugin.id.as_ref().and_then(|id| calls.get(id).cloned()),
            synchronization: plugin.synchronization.map(|progress| PluginSynchronization {
                since: seconds_since_epoch(progress.start).unwrap_or_default(),
                sent: progress.sent,
                containers: progress.total,
            }),
            failure_policy: self.failure_policy(&plugin),
            budget: self.budget(&plugin),
            pid: pid(&plugin),
            memory: pid(&plugin).and_then(resident_memory),
            nri_version: plugin.version,
            name: plugin.id.as_ref().map_or_else(String::new, ToString::to_string),
            launched: matches!(plugin.origin, PluginOrigin::Launched(_)),
            state: format!("{:?}", plugin.state).to_lowercase(),
            last_error: plugin.last_error,
            failed: plugin.failed,
            replacement_refused: plugin.replacement_refused,
            restarts: plugin.history.restarts,
            last_exit: plugin.history.last_exit,
            last_output: plugin.history.last_output,
            config: plugin.config_file.as_ref().map(|file| OsText::from(file.as_os_str())),
            warnings: plugin.warnings,
            next_launch: plugin.next_launch.and_then(seconds_since_epoch),
            events: plugin.events.iter().map(|e| format!("{e:?}")).collect(),
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: process.start.time.elapsed().as_secs(),
            config: settings.file.as_ref().map(|f| OsText::from(f.as_os_str())),
            sockets: process
                .start
                .plugin_sockets
                .iter()
                .map(|s| OsText::from(s.as_os_str()))
                .collect(),
            plugins: plugins.collect(),
            plugin_dir: self.plugins.launch_dir(&settings).map(|dir| OsText::from(dir.as_os_str())),
            pods,
            containers,
            ended_containers: Some(ended),
            with_edited_bundle,
            config_digest: settings.digest.clone(),
            mode: match settings.config.mode {
                Mode::Apply => "apply",
                Mode::Shadow => "shadow",
            }
            .to_owned(),
            due,
            ignored,
            program: program.map(|p| OsText::from(p.path.as_os_str())),
            program_replaced: program.is_some_and(Program::is_replaced),
            restart_error: program.and_then(Program::error),
            problems: (process.problems.lines().into_iter())
                .chain(self.metrics.error())
                .chain(self.audit.error())
                .chain(self.path_probe.problems())
                .chain(settings.unusable_file())
                .collect(),
            metrics: self.metrics.address(),
            idle_policies,
            plugin_dir_error,
            inherited: process.start.inherited.clone(),
            missed: self.missed_containers(),
            configured_log_level: Some(settings.config.log.level.clone())
                .filter(|level| *level != process.log.level()),
            log_is_journal: process.log.is_journal(),
            journal_error: process.log.journal_error(),
            log_level: Some(process.log.level()),
            log: process.log.file().map(|file| OsText::from(file.as_os_str())),
            state_dir_error: self.registry.write_error(),
            unclean_end: process.start.unclean_end.clone(),
            missing_required: self.plugins.adaptation.missing_required(),
        }
    }

    /// Returns the handling of a plugin's failures.
    fn failure_policy(&self, plugin: &nri_adaptation::PluginStatus) -> Option<PluginFailurePolicy> {
        let word = |on_failure| match on_failure {
            OnFailure::Ignore => "ignore".to_owned(),
            OnFailure::Fail => "fail".to_owned(),
        };
        let requested = plugin.requested_failure_policy;
        let handling = self.plugins.adaptation.failure_handling(plugin)?;
        Some(PluginFailurePolicy {
            on_failure: word(handling.on_failure),
            validation_failure: word(handling.validation_failure),
            consecutive_timeouts: handling.consecutive_timeouts,
            requested: requested.map(|requested| RequestedByPlugin {
                fail_request: requested.fail_request,
                keep_connected: requested.keep_connected,
            }),
        })
    }

    /// Returns the budget of a plugin, and its limit.
    fn budget(&self, plugin: &nri_adaptation::PluginStatus) -> Option<PluginBudget> {
        let (budget, exemption) = self.plugins.adaptation.budget(plugin)?;
        // A reload may have ended the limit of a plugin that got no request since.
        let limit = plugin.limit.filter(|_| exemption.is_none()).map(|limit| PluginLimit {
            since: seconds_since_epoch(limit.since).unwrap_or_default(),
            skipped: limit.skipped,
            next_try: seconds_since_epoch(limit.next_try).unwrap_or_default(),
        });
        Some(PluginBudget {
            time_ms: u64::try_from(budget.time.as_millis()).unwrap_or(u64::MAX),
            share: budget.share,
            exemption: exemption.map(|exemption| exemption.to_string()),
            limit,
        })
    }

    /// Returns the plugins without which existing containers were created.
    fn missed_containers(&self) -> Vec<MissedContainers> {
        let mut counts = BTreeMap::<String, usize>::new();
        for container in self.registry.all().iter().filter(|container| !container.is_deleted()) {
            for MissedPlugin { plugin, .. } in &container.record().missed {
                *counts.entry(plugin.clone()).or_default() += 1;
            }
        }
        let count = |(plugin, containers)| MissedContainers { plugin, containers };
        counts.into_iter().map(count).collect()
    }
}

fn seconds_since_epoch(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}
