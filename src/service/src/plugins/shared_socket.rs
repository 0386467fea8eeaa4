//! The socket that plugins connect to by default. Engines with NRI listen at the same path, and
//! have precedence.

use crate::settings::load::Settings;
use nri_locate::{PLUGIN_SOCKET, standard_dirs};
use std::path::PathBuf;

/// Engines that have NRI in recent versions, and then listen on the shared socket.
const ENGINES_WITH_NRI: [&str; 3] = ["containerd", "crio", "isulad"];

/// Returns the path of the second socket for plugins; the first is in the state directory. Another
/// process may already listen there.
pub fn plugin_socket(settings: &Settings) -> Option<PathBuf> {
    match &settings.config.socket_path {
        Some(path) => (!path.as_os_str().is_empty()).then(|| path.clone()),
        // No socket if an engine is installed: the engine would remove it when it starts.
        None => (settings.is_default_state_dir() && !is_engine_installed())
            .then(|| PLUGIN_SOCKET.into()),
    }
}

fn is_engine_installed() -> bool {
    let is_installed = |name: &&str| standard_dirs().any(|dir| dir.join(name).exists());
    ENGINES_WITH_NRI.iter().any(is_installed)
}
