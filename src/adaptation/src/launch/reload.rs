//! Reload: a new configuration, and a changed plugin directory, while plugins run.
//!
//! A launched plugin is kept unless an input of its launch has changed: program, configuration,
//! privileges, or the timeouts that `Configure` sends. A changed plugin is relaunched and not
//! configured again: the protocol has one `Configure` per session, and upstream's stub accepts only
//! one. The old program ends before the new one starts, since both may need the same
//! file, lock or socket. The pipeline's gate is closed meanwhile, so that no container is created
//! without the plugin. All other changes of a policy apply from the next request on.
//!
//! [`crate::launch::plan`] decides what changes; this module carries it out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::AdaptationConfig;
use crate::launch::discovery::{PluginFile, discover};
use crate::launch::plan::{ReloadAction, ReloadPlan, plan};
use crate::launch::supervisor::{LaunchOutcome, LaunchSupervisor};
use crate::plugin::handle::Plugin;
use crate::plugin::status::{PluginOrigin, PluginState};

/// Interval between checks whether a program that is being stopped has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

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
    /// The plugin did not become active, for this reason.
    Failed(String),
    /// The file cannot be launched, for this reason; a running plugin of it is kept.
    Unusable(String),
}

impl LaunchSupervisor {
    /// Returns the plan of a reload with this configuration, and the files that can be launched.
    pub(crate) async fn plan_reload(
        &self,
        config: Arc<AdaptationConfig>,
    ) -> (ReloadPlan, Vec<PluginFile>) {
        let searched = config.clone();
        let discovered = tokio::task::spawn_blocking(move || discover(&searched)).await;
        let (files, skipped) = discovered.unwrap_or_default();
        let launched = self.inputs.all();
        let plan = plan(&files, &skipped, &launched, &config, |path| self.runs_or_restarts(path));
        (plan, files)
    }

    /// Whether a plugin of this file runs, or is about to be restarted.
    fn runs_or_restarts(&self, path: &Path) -> bool {
        let all = self.core.registry.all();
        all.iter().any(|p| p.state != PluginState::Closed && p.origin.is_file(path))
    }

    /// Replaces the configuration and carries out the plan.
    pub(crate) async fn reload(self: Arc<Self>, config: AdaptationConfig) -> Vec<ReloadedPlugin> {
        // No other launch starts while this is held.
        let _launching = self.launching.write().await;
        let config = Arc::new(config);
        let (mut plan, files) = self.plan_reload(config.clone()).await;
        self.core.set_config(config.clone());
        let plugins = self.core.pipeline.plugins();
        for plugin in &plugins {
            plugin.policy.set(config.policy(&plugin.id));
        }
        // A plugin that waits for its restart is launched now.
        for (path, action) in &mut plan {
            let is_connected = || plugins.iter().any(|p| p.record.read(|s| s.origin.is_file(path)));
            if action.is_none() && !is_connected() {
                *action = Some(ReloadAction::Launch { new: false });
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
        let is_end = |path: &Path| matches!(action(path), Some(ReloadAction::End(_)));
        let is_launch = |path: &Path| matches!(action(path), Some(ReloadAction::Launch { .. }));
        let is_relaunch = |path: &Path| matches!(action(path), Some(ReloadAction::Relaunch(_)));
        let connected = |matches: &dyn Fn(&Path) -> bool| -> Vec<Arc<Plugin>> {
            let launched_from = |plugin: &Arc<Plugin>| {
                plugin.record.read(|s| match &s.origin {
                    PluginOrigin::Launched(path) => matches(path),
                    PluginOrigin::External => false,
                })
            };
            core.pipeline.plugins().into_iter().filter(launched_from).collect()
        };
        let (leaving, changing) = (connected(&is_end), connected(&is_relaunch));
        let ended: Vec<_> = plan.keys().filter(|path| is_end(path)).collect();
        for path in &ended {
            // Voids the pause of a plugin that waits for its restart.
            self.backoff.start_launch(path);
        }
        let (changed, new): (Vec<_>, Vec<_>) = files
            .into_iter()
            .filter(|f| is_launch(&f.path) || is_relaunch(&f.path))
            .partition(|f| is_relaunch(&f.path));
        // After a change of plugin_path, plugins of the new directory replace those that leave.
        let is_moved = new.iter().any(|f| leaving.iter().any(|p| p.id == f.id));
        let gate = core.pipeline.remove_and_close(&leaving);
        let gate = is_moved.then_some(gate);
        self.retire(leaving, "its file was removed").await;
        for path in ended {
            self.inputs.remove(path);
            core.registry.remove_closed_file(path);
        }
        let mut outcomes = self.clone().launch_after_exit(new).await;
        drop(gate);
        if !changed.is_empty() {
            let _gate = core.pipeline.remove_and_close(&changing);
            self.retire(changing, "relaunched").await;
            outcomes.extend(self.clone().launch_after_exit(changed).await);
        }
        outcomes
    }

    /// Ends plugins that were removed from the pipeline, once all earlier requests have passed
    /// them.
    async fn retire(self: &Arc<Self>, plugins: Vec<Arc<Plugin>>, why: &'static str) {
        let mut ending = tokio::task::JoinSet::new();
        for plugin in plugins {
            let core = self.core.clone();
            ending.spawn(async move {
                core.pipeline.drained(&plugin).await;
                let grace = plugin.timeout.min(core.config().stop_grace);
                // Best effort: old plugins do not implement Shutdown.
                let _ = tokio::time::timeout(grace, plugin.session.shutdown(grace)).await;
                plugin.retire(why.to_owned()).await;
            });
        }
        while ending.join_next().await.is_some() {}
    }

    /// Launches plugins, each after the previous program of its file has exited.
    async fn launch_after_exit(self: Arc<Self>, files: Vec<PluginFile>) -> Vec<LaunchOutcome> {
        for file in &files {
            // Bounded by the grace after which the program gets SIGKILL.
            while self.core.registry.is_running(&file.path) && !self.core.is_shutting_down() {
                tokio::time::sleep(EXIT_POLL_INTERVAL).await;
            }
        }
        self.launch_each(files, |_| true).await
    }
}
