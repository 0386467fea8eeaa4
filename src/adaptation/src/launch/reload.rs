//! Reload: applies a new configuration and a changed plugin directory while plugins run.
//!
//! A launched plugin is kept unless an input of its launch has changed: program, configuration,
//! privileges, variables, or the timeouts that `Configure` sends. A changed plugin is relaunched
//! and not configured again: the protocol has one `Configure` per session, and upstream's stub
//! accepts only one. The old program ends before the new one starts, since both may need the same
//! file, lock or socket. The pipeline's gate is closed meanwhile, so that no container is created
//! without the plugin. One that fails with a changed configuration is launched with the previous
//! one before the gate opens, so that a mistake in a file changes nothing. All other changes of a
//! policy apply from the next request on.
//!
//! [`crate::launch::plan`] decides what changes; this module carries it out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::AdaptationConfig;
use crate::error::SessionError;
use crate::launch::directory::READ_TIMEOUT;
use crate::launch::discovery::PluginFile;
use crate::launch::plan::{ReloadAction, ReloadPlan, plan};
use crate::launch::skip_reason::{LaunchedByOther, SkipReason};
use crate::launch::supervisor::{LaunchOutcome, LaunchSupervisor};
use crate::plugin::handle::Plugin;
use crate::plugin::status::{PluginOrigin, PluginState};

/// Interval between checks whether a program that is being stopped has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Changes that a reload with the current configuration would make.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PendingReload {
    /// Actions on files of the plugin directory.
    pub actions: Vec<(PathBuf, ReloadAction)>,
    /// Files of plugins that run with their previous configurations, since they have failed with
    /// the current ones, each with the reason.
    pub refused: BTreeMap<PathBuf, String>,
    /// Names of policies that match neither a plugin of [`Adaptation::plugins`] nor a plugin file.
    /// Such a name is misspelled, or belongs to a plugin that connects later.
    ///
    /// [`Adaptation::plugins`]: crate::Adaptation::plugins
    pub unmatched_policies: Vec<String>,
}

/// A file of the plugin directory after a reload.
#[derive(Debug)]
pub struct ReloadedPlugin {
    /// Path of the file.
    pub path: PathBuf,
    /// Result of the reload.
    pub outcome: ReloadOutcome,
}

/// Result of a reload for one file.
#[derive(Debug)]
pub enum ReloadOutcome {
    /// The plugin runs as before.
    Kept,
    /// The plugin was launched, and is active.
    Launched,
    /// The plugin was ended and launched again, for this reason, and is active.
    Relaunched(&'static str),
    /// The plugin was ended, for this reason.
    Ended(&'static str),
    /// The plugin did not become active, or not with its new configuration, for this reason.
    Failed(String),
    /// The file cannot be launched, for this reason; a running plugin of the file is kept.
    Unusable(String),
    /// The plugin is not launched, since another NRI runtime launches it.
    Withheld(LaunchedByOther),
    /// The file is named like a plugin, but is none, for this reason.
    Ignored(&'static str),
}

impl LaunchSupervisor {
    /// Returns the plan of a reload with this configuration, and the files that can be launched.
    ///
    /// # Errors
    /// The plugin directory cannot be read within `limit`.
    pub(crate) async fn plan_reload(
        &self,
        config: Arc<AdaptationConfig>,
        limit: Duration,
    ) -> Result<(ReloadPlan, Vec<PluginFile>), SkipReason> {
        let launched = self.inputs.all();
        let paths = launched.keys().cloned().collect();
        let discovered = self.directory.discover(config.clone(), paths, limit).await?;
        let plan = plan(&discovered, &launched, &config, |path| self.runs_or_restarts(path));
        Ok((plan, discovered.found.files.clone()))
    }

    /// Whether a plugin of this file runs, or is about to be restarted.
    fn runs_or_restarts(&self, path: &Path) -> bool {
        let all = self.core.registry.all();
        all.iter().any(|p| p.state != PluginState::Closed && p.origin.is_file(path))
    }

    /// Replaces the configuration and carries out the plan.
    pub(crate) async fn reload(self: Arc<Self>, config: AdaptationConfig) -> Vec<ReloadedPlugin> {
        // No other launch starts while this lock is held.
        let _lock = self.launch_lock.write().await;
        let config = Arc::new(config);
        let planned = self.plan_reload(config.clone(), READ_TIMEOUT).await;
        self.core.set_config(config.clone());
        let plugins = self.core.pipeline.plugins();
        for plugin in &plugins {
            plugin.policy.set(config.policy(&plugin.id));
        }
        let (mut plan, files) = match planned {
            Ok(planned) => planned,
            // Without the content of the directory, no plugin is launched or ended.
            Err(why) => {
                let path = config.plugin_path.clone();
                let outcome = ReloadOutcome::Unusable(why.to_string());
                return vec![ReloadedPlugin { path, outcome }];
            }
        };
        // A plugin that waits for its restart is launched now.
        for (path, action) in &mut plan {
            let is_connected = || plugins.iter().any(|p| p.record.read(|s| s.origin.is_file(path)));
            if action.is_none() && !is_connected() {
                *action = Some(ReloadAction::Launch { new: false });
            }
        }
        // Containers do not miss a plugin that was removed before it could be launched.
        self.core.registry.remove_closed_without_file(|file| plan.contains_key(file));
        for (path, action) in &plan {
            if let Some(ReloadAction::Withhold(why)) = action {
                self.withhold(path, why);
            }
        }
        let outcomes = self.carry_out(&plan, files).await;
        let mut failed: BTreeMap<_, _> = outcomes
            .into_iter()
            .filter_map(|o| Some((o.path, o.result.err()?.to_string())))
            .collect();
        let reloaded = |(path, action): (PathBuf, Option<ReloadAction>)| {
            let outcome = match (failed.remove(&path), action) {
                (Some(error), _) => ReloadOutcome::Failed(error),
                (None, None) => ReloadOutcome::Kept,
                (None, Some(ReloadAction::Launch { .. })) => ReloadOutcome::Launched,
                (None, Some(ReloadAction::Relaunch(why))) => ReloadOutcome::Relaunched(why),
                (None, Some(ReloadAction::End(why))) => ReloadOutcome::Ended(why),
                (None, Some(ReloadAction::Unusable(why))) => ReloadOutcome::Unusable(why),
                (None, Some(ReloadAction::Withhold(why))) => ReloadOutcome::Withheld(why),
                (None, Some(ReloadAction::Ignore(why))) => ReloadOutcome::Ignored(why),
            };
            ReloadedPlugin { path, outcome }
        };
        plan.into_iter().map(reloaded).collect()
    }

    /// Ends, launches and relaunches plugins; returns the outcomes of the launches.
    async fn carry_out(
        self: &Arc<Self>,
        plan: &ReloadPlan,
        files: Vec<PluginFile>,
    ) -> Vec<LaunchOutcome> {
        let core = &self.core;
        let action = |path: &Path| plan.get(path).and_then(Option::as_ref);
        let end_reason = |path: &Path| match action(path) {
            Some(ReloadAction::End(why)) => Some(*why),
            _ => None,
        };
        let is_launch = |path: &Path| matches!(action(path), Some(ReloadAction::Launch { .. }));
        let relaunch_reason = |path: &Path| match action(path) {
            Some(ReloadAction::Relaunch(why)) => Some(*why),
            _ => None,
        };
        // Connected plugins, each with the reason why it ends.
        type Retired = Vec<(Arc<Plugin>, &'static str)>;
        let connected = |reason: &dyn Fn(&Path) -> Option<&'static str>| -> Retired {
            let of_plugin = |plugin: Arc<Plugin>| {
                let why = plugin.record.read(|s| match &s.origin {
                    PluginOrigin::Launched(path) => reason(path),
                    PluginOrigin::External => None,
                });
                Some((plugin, why?))
            };
            core.pipeline.plugins().into_iter().filter_map(of_plugin).collect()
        };
        let to_end = connected(&end_reason);
        let to_relaunch = connected(&relaunch_reason);
        let ended_files: Vec<_> = plan.keys().filter(|path| end_reason(path).is_some()).collect();
        for path in &ended_files {
            // Cancels the pause of a plugin that waits for its restart.
            self.backoff.start_launch(path);
        }
        let (changed_files, new_files): (Vec<_>, Vec<_>) = files
            .into_iter()
            .filter(|f| is_launch(&f.path) || relaunch_reason(&f.path).is_some())
            .partition(|f| relaunch_reason(&f.path).is_some());
        // After a change of plugin_path, plugins of the new directory replace plugins that end.
        let is_moved = new_files.iter().any(|f| to_end.iter().any(|(p, _)| p.id == f.id));
        let plugins =
            |all: &Retired| all.iter().map(|(plugin, _)| plugin.clone()).collect::<Vec<_>>();
        to_end.iter().for_each(|(plugin, _)| plugin.record.set_removed());
        let gate = core.pipeline.remove_and_close(&plugins(&to_end));
        let gate = is_moved.then_some(gate);
        self.retire(to_end).await;
        for path in ended_files {
            self.inputs.remove(path);
            core.registry.remove_closed_file(path);
        }
        let mut outcomes = self.clone().launch_after_exit(new_files, |_| true).await;
        drop(gate);
        if !changed_files.is_empty() {
            let _gate = core.pipeline.remove_and_close(&plugins(&to_relaunch));
            let ran = |file: &PluginFile| {
                let of_file = |(plugin, _): &(Arc<Plugin>, _)| {
                    plugin.record.read(|status| status.origin.is_file(&file.path))
                };
                to_relaunch.iter().any(of_file)
            };
            let previous = self.previous_configurations(changed_files.iter().filter(|f| ran(f)));
            self.retire(to_relaunch).await;
            outcomes.extend(self.relaunch(changed_files, previous).await);
        }
        outcomes
    }

    /// Ends plugins that were removed from the pipeline, once all earlier requests have passed
    /// them. Each plugin is paired with the reason for its end.
    async fn retire(self: &Arc<Self>, plugins: Vec<(Arc<Plugin>, &'static str)>) {
        let mut ending = tokio::task::JoinSet::new();
        for (plugin, why) in plugins {
            let core = self.core.clone();
            ending.spawn(async move {
                core.pipeline.wait_drained(&plugin).await;
                let grace = plugin.timeout.min(core.config().stop_grace);
                plugin.retire(why, grace).await;
            });
        }
        while ending.join_next().await.is_some() {}
    }

    /// Returns the configurations with which plugins run, where only that has changed.
    fn previous_configurations<'a>(
        &self,
        running: impl Iterator<Item = &'a PluginFile>,
    ) -> BTreeMap<PathBuf, PluginFile> {
        let before = self.inputs.all();
        let previous = |file: &PluginFile| {
            Some((file.path.clone(), before.get(&file.path)?.previous_configuration(file)?))
        };
        running.filter_map(previous).collect()
    }

    /// Launches plugins that were ended. One that fails is launched with its configuration in
    /// `previous`, if it has one there.
    async fn relaunch(
        self: &Arc<Self>,
        files: Vec<PluginFile>,
        previous: BTreeMap<PathBuf, PluginFile>,
    ) -> Vec<LaunchOutcome> {
        let should_restart = |path: &Path| !previous.contains_key(path);
        let outcomes = self.clone().launch_after_exit(files.clone(), should_restart).await;
        let failed = outcomes.iter().filter(|outcome| outcome.result.is_err());
        let failed = failed.filter_map(|outcome| previous.get(&outcome.path).cloned()).collect();
        let active = self.clone().launch_after_exit(failed, |_| true).await;
        let continues = |path: &Path| active.iter().any(|o| o.path == path && o.result.is_ok());
        let outcome = |LaunchOutcome { path, result }: LaunchOutcome| {
            let result = result.map_err(|error| {
                if !continues(&path) {
                    return error;
                }
                if let Some(file) = files.iter().find(|file| file.path == path) {
                    self.inputs.refuse(file, error.to_string());
                }
                SessionError::PreviousConfiguration(Box::new(error))
            });
            LaunchOutcome { path, result }
        };
        outcomes.into_iter().map(outcome).collect()
    }

    /// Launches plugins, each after the previous program of its file has exited. A plugin that
    /// fails is restarted if `should_restart` returns true for its file.
    async fn launch_after_exit(
        self: Arc<Self>,
        files: Vec<PluginFile>,
        should_restart: impl Fn(&Path) -> bool,
    ) -> Vec<LaunchOutcome> {
        for file in &files {
            // The wait is bounded, since the program gets SIGKILL after `stop_grace`.
            while self.core.registry.is_running(&file.path) && !self.core.is_shutting_down() {
                tokio::time::sleep(EXIT_POLL_INTERVAL).await;
            }
        }
        let with_output = |LaunchOutcome { path, result }: LaunchOutcome| {
            let result = result.map_err(|error| match self.core.registry.last_output(&path) {
                Some(output) => SessionError::WithOutput { source: Box::new(error), output },
                None => error,
            });
            LaunchOutcome { path, result }
        };
        let outcomes = self.launch_each(files, should_restart).await;
        outcomes.into_iter().map(with_output).collect()
    }
}
