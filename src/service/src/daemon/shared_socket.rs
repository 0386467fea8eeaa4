//! The socket that plugins connect to by default. Engines with NRI listen at the same path, and
//! have precedence.

use crate::{daemon::activation::file_id, settings::load::Settings};
use nri_host::{describe, listener};
use nri_locate::{PLUGIN_SOCKET, standard_dirs};
use std::{path::PathBuf, time::Duration};

/// Interval at which the path is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Engines that have NRI in recent versions, and then listen on the shared socket.
const ENGINES_WITH_NRI: [&str; 2] = ["containerd", "crio"];

/// Returns the path of the second socket for plugins; the first is in the state directory. Another
/// process may already listen there.
pub fn plugin_socket(settings: &Settings) -> Option<PathBuf> {
    match &settings.config.socket_path {
        Some(path) => (!path.as_os_str().is_empty()).then(|| path.clone()),
        // Not if an engine is installed: it would remove the socket when it starts.
        None => (settings.is_default_state_dir() && !is_engine_installed())
            .then(|| PLUGIN_SOCKET.into()),
    }
}

/// Logs when another process has taken the path of the socket: containerd removes the file that it
/// finds there when it starts.
pub async fn watch_socket(path: PathBuf) {
    let own = file_id(&path);
    while file_id(&path) == own {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let now = match listener(&path) {
        Some(pid) => format!("{} listens there now", describe(pid)),
        None => "no process listens there now".to_owned(),
    };
    tracing::error!(
        socket = %path.display(),
        "plugin socket was removed or replaced: {now}; plugins that connect to this path do not \
         reach nrid; `nrictl doctor` explains"
    );
}

fn is_engine_installed() -> bool {
    let is_installed = |name: &&str| standard_dirs().any(|dir| dir.join(name).exists());
    ENGINES_WITH_NRI.iter().any(is_installed)
}
