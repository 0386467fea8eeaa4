//! The shared plugins: the plugins in the default plugin directory, which every NRI runtime of the
//! host reads. While an engine's own NRI launches them, `nrid` does not.

use crate::settings::load::Settings;
use nri_locate::PLUGIN_DIR;
use std::{path::PathBuf, time::Instant};
use tokio::sync::Mutex;

/// Whether an engine launches the shared plugins.
#[derive(Debug)]
pub struct SharedPlugins {
    /// Time of the last check; `None` once `nrid` launches the shared plugins.
    pub(super) engine_checked: Mutex<Option<Instant>>,
}

impl SharedPlugins {
    /// Creates the state. `by_engine`: an engine launches the shared plugins now.
    pub fn new(by_engine: bool) -> Self {
        Self { engine_checked: Mutex::new(by_engine.then(Instant::now)) }
    }

    /// Records whether an engine launches the shared plugins now.
    pub async fn set(&self, by_engine: bool) {
        *self.engine_checked.lock().await = by_engine.then(Instant::now);
    }

    /// Whether an engine launches the shared plugins. Also true during a check.
    pub(super) fn are_launched_by_engine(&self) -> bool {
        self.engine_checked.try_lock().map_or(true, |checked| checked.is_some())
    }
}

/// Returns the directory of the plugins to launch; `None` if an engine launches the shared plugins
/// and neither the configuration nor the user has another directory. `owns_socket`: `nrid` listens
/// on the shared socket, so no engine does.
pub fn plugin_dir(settings: &Settings, owns_socket: bool) -> Option<PathBuf> {
    let dir = settings.plugin_dirs.programs.clone();
    if owns_socket || !settings.plugin_dirs.are_shared {
        return Some(dir);
    }
    let Some(pid) = nri_host::launcher_of(&dir) else { return Some(dir) };
    tracing::warn!(
        directory = PLUGIN_DIR,
        "NRI of {} launches the shared plugins, so nrid launches none; \
         set plugin_path to launch others",
        nri_host::describe(pid)
    );
    None
}
