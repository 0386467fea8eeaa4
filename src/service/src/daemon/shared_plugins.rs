//! The plugins that all NRI runtimes of a host share: those in the default plugin directory. While
//! an engine's own NRI launches them, `nrid` does not.

use crate::settings::load::Settings;
use nri_locate::PLUGIN_DIR;
use std::{path::PathBuf, time::Instant};
use tokio::sync::Mutex;

/// Whether an engine launches the shared plugins.
#[derive(Debug)]
pub struct SharedPlugins {
    /// Time of the last check; none once `nrid` launches them.
    pub(super) engine_checked: Mutex<Option<Instant>>,
}

impl SharedPlugins {
    /// `with_engine`: an engine launches them now.
    pub fn new(with_engine: bool) -> Self {
        Self { engine_checked: Mutex::new(with_engine.then(Instant::now)) }
    }

    /// Changes the state of [`SharedPlugins::new`].
    pub async fn set(&self, with_engine: bool) {
        *self.engine_checked.lock().await = with_engine.then(Instant::now);
    }

    /// Whether `nrid` does not launch them, or does not yet.
    pub(super) fn are_with_engine(&self) -> bool {
        self.engine_checked.try_lock().map_or(true, |checked| checked.is_some())
    }
}

/// Returns the directory of the plugins to launch; none while an engine launches those of the
/// shared one. `owns_socket`: `nrid` listens on the shared socket, so no engine does.
pub fn plugin_dir(settings: &Settings, owns_socket: bool) -> Option<PathBuf> {
    if let Some(dir) = &settings.config.plugin_path {
        return Some(dir.clone());
    }
    let dir = PathBuf::from(PLUGIN_DIR);
    if owns_socket {
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
