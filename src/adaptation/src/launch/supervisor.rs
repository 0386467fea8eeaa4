//! Supervisor of launched plugins: launches, relaunches after a pause, and reloads.
//!
//! Restarts are decided here and not by the
//! [`ContainerManager`](crate::manager::ContainerManager), because they must not race with the exit
//! of a program, its next launch or the shutdown. A plugin that was restarted is synchronized like
//! any other. While a plugin with `required` in its policy is not active, creations fail.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_api::PluginId;

use crate::config::AdaptationConfig;
use crate::core::Core;
use crate::error::SessionError;
use crate::launch::backoff::Backoff;
use crate::launch::directory::DirectoryReader;
use crate::launch::discovery::{PluginFile, PluginFiles, discover, examine};
use crate::launch::output::PluginOutput;
use crate::launch::pinned::verified_copy;
use crate::launch::plan::LaunchInputs;
use crate::launch::process::launch;
use crate::launch::skip_reason::{LaunchedByOther, SkipReason};
use crate::plugin::status::{PluginOrigin, SessionEnd};
use crate::policy::plugin_policy::PluginPolicy;
use crate::session::handshake::{ConfiguredPlugin, Connection, OnEnd};

/// Result of the launch of one file in the plugin directory.
#[derive(Debug)]
pub struct LaunchOutcome {
    /// Path of the file, or of the plugin directory if that cannot be read.
    pub path: PathBuf,
    /// The active plugin, or the reason why it is not active.
    pub result: Result<PluginId, SessionError>,
}

/// Launches plugins and restarts those that end.
pub(crate) struct LaunchSupervisor {
    pub(crate) core: Arc<Core>,
    pub(crate) backoff: Backoff,
    pub(crate) inputs: LaunchInputs,
    /// Read-locked by each launch and write-locked by a reload, so that no other launch starts
    /// during a reload.
    pub(crate) launch_lock: tokio::sync::RwLock<()>,
    pub(crate) output: PluginOutput,
    pub(crate) directory: DirectoryReader,
}

impl LaunchSupervisor {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            output: PluginOutput::new(core.manager.clone()),
            core,
            backoff: Backoff::default(),
            inputs: LaunchInputs::default(),
            launch_lock: tokio::sync::RwLock::default(),
            directory: DirectoryReader::default(),
        }
    }

    /// Launches all plugins of the plugin directory. Files that discovery skipped are among the
    /// outcomes, and listed as closed plugins.
    ///
    /// # Errors
    /// The plugin directory cannot be read in time.
    pub(crate) async fn launch_all(self: &Arc<Self>) -> Result<Vec<LaunchOutcome>, SkipReason> {
        let config = self.core.config();
        let found = self.directory.read(move || Ok(discover(&config))).await?;
        let PluginFiles { files, skipped, .. } = found;
        let registry = &self.core.registry;
        // A plugin whose failure makes the start of the adaptation fail is not restarted.
        let should_restart = |path: &Path| !self.is_required_at_start(path);
        let mut outcomes: Vec<_> = skipped
            .into_iter()
            .filter(|s| !matches!(s.reason, SkipReason::SameName(_)))
            .map(|s| {
                if let SkipReason::LaunchedByOther(why) = &s.reason {
                    self.withhold(&s.path, why);
                    return LaunchOutcome { path: s.path, result: Err(s.reason.into()) };
                }
                let (id, origin) = (id_of(&s.path), PluginOrigin::Launched(s.path.clone()));
                let record = registry.add(registry.next_serial(), id.clone(), origin, None);
                registry.close(&record, SessionEnd::failure(&s.reason));
                if let Some(id) = id.filter(|_| s.reason.may_pass() && should_restart(&s.path)) {
                    self.restart(id, s.path.clone(), Duration::ZERO);
                }
                LaunchOutcome { path: s.path, result: Err(s.reason.into()) }
            })
            .collect();
        outcomes.extend(self.launch_each(files, should_restart).await);
        outcomes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(outcomes)
    }

    /// Lists a plugin that another NRI runtime launches as closed, so that containers miss it.
    pub(crate) fn withhold(&self, path: &Path, why: &LaunchedByOther) {
        let registry = &self.core.registry;
        registry.remove_closed_file(path);
        let origin = PluginOrigin::Launched(path.to_owned());
        let record = registry.add(registry.next_serial(), id_of(path), origin, None);
        let end = SessionEnd { why: why.to_string(), ..SessionEnd::default() };
        self.core.notify_changed(registry.close(&record, end));
    }

    /// Launches programs in parallel, and admits the plugins one after the other in the order of
    /// `files`, which is the order of file names and so of indices. A plugin that fails is
    /// restarted if `should_restart` returns true for its file.
    pub(crate) async fn launch_each(
        self: &Arc<Self>,
        files: Vec<PluginFile>,
        should_restart: impl Fn(&Path) -> bool,
    ) -> Vec<LaunchOutcome> {
        let mut launches = Vec::new();
        for file in files {
            let serial = self.core.registry.next_serial();
            let launch = tokio::spawn(self.clone().launch_one(file.clone(), serial));
            launches.push((file, launch));
        }
        let mut configured = Vec::new();
        for (file, launch) in launches {
            let result =
                launch.await.unwrap_or_else(|e| Err(SessionError::Unregistered(e.to_string())));
            if result.is_err() && should_restart(&file.path) {
                self.restart(file.id, file.path.clone(), Duration::ZERO);
            }
            configured.push((file.path, result));
        }
        let mut outcomes = Vec::new();
        for (path, result) in configured {
            let result = match result {
                Ok(plugin) => self.core.admit_launched(plugin).await,
                Err(e) => Err(e),
            };
            outcomes.push(LaunchOutcome { path, result });
        }
        outcomes
    }

    /// Launches the plugin of one file, and restarts it if that fails.
    pub(crate) async fn launch_file(
        self: &Arc<Self>,
        path: &Path,
    ) -> Result<PluginId, SessionError> {
        let _lock = self.launch_lock.read().await;
        let file = self.examine_again(path).await?;
        let serial = self.core.registry.next_serial();
        match self.clone().launch_one(file.clone(), serial).await {
            Ok(plugin) => self.core.admit_launched(plugin).await,
            Err(e) => {
                self.restart(file.id, file.path, Duration::ZERO);
                Err(e)
            }
        }
    }

    /// Launches a program, and registers and configures the plugin.
    async fn launch_one(
        self: Arc<Self>,
        file: PluginFile,
        serial: u64,
    ) -> Result<ConfiguredPlugin, SessionError> {
        let core = &self.core;
        self.backoff.start_launch(&file.path);
        let record = core.registry.add_launch(serial, file.id.clone(), &file.path);
        core.statistics.start_session(&file.id);
        let config = core.config();
        if self.inputs.record(&file, &config) {
            self.backoff.forget_failures(&file.path);
        }
        let launched = async {
            let copy = self.copy_of_pinned(&file).await?;
            let launched = launch(&file, copy, &config, self.output.clone()).await;
            launched.map_err(SessionError::Launch)
        };
        let (stream, process) = match launched.await {
            Ok(launched) => launched,
            Err(e) => {
                core.notify_changed(core.registry.close(&record, SessionEnd::failure(&e)));
                return Err(e);
            }
        };
        record.set(|s| (s.pid, s.config_file) = (process.pid, file.config_file.clone()));
        record.set_output(process.kept());
        let (config, process) = (file.config.clone(), Some(process));
        let supervisor = self.clone();
        let on_end: OnEnd = Box::new(move |active| supervisor.restart(file.id, file.path, active));
        let on_end = Some(on_end);
        core.configure(Connection { stream, record, config, process, on_end, peer: None }).await
    }

    /// Returns the verified copy of a file that is pinned by digest.
    async fn copy_of_pinned(&self, file: &PluginFile) -> Result<Option<OwnedFd>, SkipReason> {
        let Some(digest) = file.digest.clone() else { return Ok(None) };
        let path = file.path.clone();
        self.directory.read(move || verified_copy(&path, &digest)).await.map(Some)
    }

    /// Restarts a plugin that was active for `active` and ended, if its policy permits restarts.
    fn restart(self: &Arc<Self>, id: PluginId, path: PathBuf, active: Duration) {
        if !self.core.should_restart(&id) {
            return;
        }
        let policy = self.core.config().policy(&id);
        let pause = self.begin_pause(&path, &policy, active);
        let supervisor = self.clone();
        self.core
            .spawn(async move { supervisor.restart_until_active(&path, &policy, pause).await });
    }

    /// Records the end of a plugin that was active for `active`, and that it is about to be
    /// launched again. Returns the pause before that, and the generation that it belongs to.
    fn begin_pause(&self, path: &Path, policy: &PluginPolicy, active: Duration) -> (Duration, u64) {
        let core = &self.core;
        let (pause, generation) = self.backoff.record_end(path, active, policy, &core.config());
        if let Some(status) = core.registry.set_restarting(path, SystemTime::now() + pause) {
            core.notify_changed(status);
        }
        (pause, generation)
    }

    /// Launches the plugin after a pause, and repeats this until a launch succeeds. Each launch
    /// reads the plugin's configuration file again. If the plugin's session ends later, that end
    /// starts the next restart.
    async fn restart_until_active(
        self: Arc<Self>,
        path: &Path,
        policy: &PluginPolicy,
        (mut pause, mut generation): (Duration, u64),
    ) {
        let core = &self.core;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = core.wait_for_shutdown() => return,
            }
            let _lock = self.launch_lock.read().await;
            // `is_running` detects a launch between the exit and the start of the pause.
            if !self.backoff.is_current(path, generation) || core.registry.is_running(path) {
                return;
            }
            let found = match self.examine_again(path).await {
                Ok(found) => found,
                Err(SessionError::Skipped(e)) if e.may_pass() => {
                    core.registry.set_restart_error(path, &e.to_string());
                    (pause, generation) = self.begin_pause(path, policy, Duration::ZERO);
                    continue;
                }
                Err(e) => {
                    if let Some(status) = core.registry.abandon_restart(path, &e.to_string()) {
                        core.notify_changed(status);
                    }
                    return;
                }
            };
            let serial = core.registry.next_serial();
            // The container manager is notified of a failure by the launch itself.
            if let Ok(plugin) = self.clone().launch_one(found, serial).await {
                // A failure ends the session, whose end starts the next restart.
                let _ = core.admit_launched(plugin).await;
                return;
            }
            (pause, generation) = self.begin_pause(path, policy, Duration::ZERO);
        }
    }

    /// Examines a file again before a launch: it may have been changed or removed.
    async fn examine_again(&self, path: &Path) -> Result<PluginFile, SessionError> {
        let (path, config) = (path.to_owned(), self.core.config());
        match self.directory.read(move || examine(&path, &config)).await {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(SessionError::NotExecutable),
            Err(SkipReason::Unreadable(e)) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(SessionError::FileRemoved)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the start of the adaptation fails if the plugin of this file does not become active.
    pub(crate) fn is_required_at_start(&self, path: &Path) -> bool {
        let config: &AdaptationConfig = &self.core.config();
        id_of(path).filter(|_| !config.start_without_required).is_some_and(|id| {
            // Creations are refused for it; a start would not even say why.
            if config.launched_by_other(path, &id).is_some() {
                return false;
            }
            let policy = config.policy(&id);
            // A required policy for all plugins needs only one of them to be active.
            policy.requires_of_all() && !policy.is_for_all()
        })
    }
}

/// Returns the identity of the plugin, from its file name.
pub(crate) fn id_of(path: &Path) -> Option<PluginId> {
    PluginId::from_file_name(path.file_name()?.to_str()?).ok()
}
