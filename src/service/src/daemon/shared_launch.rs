//! Launches the shared plugins before the first container that `nrid` adjusts.

use crate::{
    daemon::{
        plugin_config::adaptation_config,
        shared_plugins::{SharedLaunch, SharedState, engine_that_launches},
    },
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    service::Service,
};
use nri_adaptation::{ReloadOutcome, ReloadedPlugin};
use nri_locate::PLUGIN_DIR;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time for which the result of a check is reused. A check reads `/proc` and connects to a socket,
/// and delays the creation of a container meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

impl Service {
    /// Returns the directory of the plugins that `nrid` launches; `None` while the launch of the
    /// shared plugins is deferred.
    pub fn launch_dir(&self) -> Option<PathBuf> {
        if self.shared_plugins.are_deferred() {
            return None;
        }
        Some(self.settings().plugin_dirs.programs.clone())
    }

    /// Launches the shared plugins, if they are not yet. Called before a creation that plugins
    /// receive. Those that were withheld are launched after the engine has stopped.
    pub async fn launch_shared_plugins(&self) {
        let mut state = self.shared_plugins.state.lock().await;
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
        let config = adaptation_config(&self.settings(), &launch);
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
}

/// Whether a plugin was not launched because an engine launches it.
pub(super) fn is_any_withheld(reloaded: &[ReloadedPlugin]) -> bool {
    reloaded.iter().any(|change| matches!(change.outcome, ReloadOutcome::Withheld(_)))
}
