//! [`Plugins`]: the plugins of `nrid`. Launches the shared ones before the first container that
//! `nrid` adjusts.

use crate::{
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    plugins::{
        config::adaptation_config,
        requests::PluginRequests,
        shared::{SharedLaunch, SharedState, engine_that_launches},
    },
    settings::load::Settings,
};
use nri_adaptation::{Adaptation, AdaptationConfig, ReloadOutcome, ReloadedPlugin};
use nri_locate::PLUGIN_DIR;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, MutexGuard};

/// Time for which the result of a check is reused. A check reads `/proc` and connects to a socket,
/// and delays the creation of a container meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The plugins.
pub struct Plugins {
    /// Their sessions, and the requests to them.
    pub adaptation: Adaptation,
    /// What they request for existing containers.
    pub requests: Arc<PluginRequests>,
    shared: Mutex<SharedState>,
}

impl Plugins {
    /// Returns the plugins after a start.
    pub fn new(adaptation: Adaptation, requests: Arc<PluginRequests>, shared: SharedState) -> Self {
        Self { adaptation, requests, shared: Mutex::new(shared) }
    }

    /// Returns the directory of the plugins that `nrid` launches; `None` while the launch of the
    /// shared plugins is deferred, also while it is in progress.
    pub fn launch_dir(&self, settings: &Settings) -> Option<PathBuf> {
        let state = self.shared.try_lock().ok()?;
        (*state != SharedState::Deferred).then(|| settings.plugin_dirs.programs.clone())
    }

    /// Launches the shared plugins, if they are not yet. Called before a creation that plugins
    /// receive. Those that were withheld are launched after the engine has stopped. `settings`
    /// returns the current settings, which a reload may change until then.
    pub async fn launch_shared(&self, settings: impl Fn() -> Arc<Settings>) {
        let mut state = self.shared.lock().await;
        match *state {
            SharedState::Launched => return,
            SharedState::Withheld(checked) if checked.elapsed() < CHECK_INTERVAL => return,
            SharedState::Withheld(_) | SharedState::Deferred => {}
        }
        let engine =
            file_access::run(FileSystem::Configuration, LOOKUP_TIMEOUT, engine_that_launches)
                .await
                .unwrap_or_default();
        if matches!(*state, SharedState::Withheld(_)) && engine.is_some() {
            *state = SharedState::Withheld(Instant::now());
            return;
        }
        let engine_name = engine.as_ref().map(|engine| engine.name.as_str());
        tracing::info!(directory = PLUGIN_DIR, engine = engine_name, "launching shared plugins");
        let launch = SharedLaunch::Launched(engine);
        let config = adaptation_config(&settings(), &launch);
        let reloaded = self.adaptation.reload(config).await;
        for change in &reloaded {
            if let ReloadOutcome::Failed(error) | ReloadOutcome::Unusable(error) = &change.outcome {
                tracing::error!(plugin = %change.path.display(), error, "plugin not launched");
            }
        }
        // An outcome with the path of the directory itself means that the directory could not be
        // read; the launch is then tried again later.
        if reloaded.iter().all(|change| change.path != Path::new(PLUGIN_DIR)) {
            *state = SharedState::of(&launch, is_any_withheld(&reloaded));
        }
    }

    /// Keeps creations from launching the shared plugins until the guard is dropped; `None` if the
    /// launch is not deferred.
    pub async fn deferred_launch(&self) -> Option<MutexGuard<'_, SharedState>> {
        Some(self.shared.lock().await).filter(|state| **state == SharedState::Deferred)
    }

    /// Launches, relaunches and ends plugins by a new configuration. `deferred` is the launch that
    /// was deferred before.
    pub async fn reload(
        &self,
        config: AdaptationConfig,
        launch: &SharedLaunch,
        deferred: Option<MutexGuard<'_, SharedState>>,
    ) -> Vec<ReloadedPlugin> {
        let reloaded = self.adaptation.reload(config).await;
        let state = SharedState::of(launch, is_any_withheld(&reloaded));
        match deferred {
            Some(mut deferred) => *deferred = state,
            None => *self.shared.lock().await = state,
        }
        reloaded
    }
}

/// Whether a plugin was not launched because an engine launches it.
fn is_any_withheld(reloaded: &[ReloadedPlugin]) -> bool {
    reloaded.iter().any(|change| matches!(change.outcome, ReloadOutcome::Withheld(_)))
}
