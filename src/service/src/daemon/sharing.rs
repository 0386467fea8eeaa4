//! Launches the shared plugins after NRI was switched off in the engine that launched them.

use crate::{service::Service, settings::plugins::adaptation_config};
use nri_adaptation::ReloadOutcome;
use nri_locate::PLUGIN_DIR;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::task::spawn_blocking;

/// Time for which the result of a check is reused. A check reads `/proc` and connects to a socket,
/// and delays the creation of a container meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

impl Service {
    /// Returns the directory of the plugins that `nrid` launches; `None` while an engine launches
    /// the shared plugins.
    pub fn launch_dir(&self) -> Option<PathBuf> {
        if self.shared_plugins.are_launched_by_engine() {
            return None;
        }
        Some(self.settings().plugin_dirs.programs.clone())
    }

    /// Launches the shared plugins if no engine launches them any more. Called before a creation,
    /// because otherwise no plugin would adjust the container.
    pub async fn take_shared_plugins(&self) {
        let mut engine_checked = self.shared_plugins.engine_checked.lock().await;
        let Some(checked) = *engine_checked else { return };
        if checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        let engine = spawn_blocking(|| nri_host::launcher_of(Path::new(PLUGIN_DIR))).await;
        if !matches!(engine, Ok(None)) {
            *engine_checked = Some(Instant::now());
            return;
        }
        tracing::info!(
            directory = PLUGIN_DIR,
            "no engine launches the shared plugins any more; nrid launches them now"
        );
        let config = adaptation_config(&self.settings(), Some(PLUGIN_DIR.into()));
        let mut is_read = true;
        for change in self.adaptation.reload(config).await {
            // An outcome with the path of the directory itself means that the directory could not
            // be read; the launch is then tried again later.
            is_read &= change.path != Path::new(PLUGIN_DIR);
            if let ReloadOutcome::Failed(error) | ReloadOutcome::Unusable(error) = change.outcome {
                tracing::error!(plugin = %change.path.display(), error, "plugin not launched");
            }
        }
        *engine_checked = (!is_read).then(Instant::now);
    }
}
