//! What NRI runtimes of one host share: the plugin directory and the socket that plugins look for. Engines with NRI of their own come first.

use crate::settings::Settings;
use nri_config::{PLUGIN_DIR, PLUGIN_SOCKET, SEARCH_PATH};
use nri_host::{describe, listener};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// How often the path of the shared socket is looked at.
const LOOK_AT_SOCKET: Duration = Duration::from_secs(10);

/// Engines that have NRI of their own in their recent versions, and listen on the shared socket then.
const ENGINES_WITH_NRI: [&str; 2] = ["containerd", "crio"];

/// The directory of the plugins to launch; none while another NRI runtime is live that launches those of the shared one.
pub fn plugin_dir(settings: &Settings) -> Option<PathBuf> {
    if let Some(dir) = &settings.config.plugin_path {
        return Some(dir.clone());
    }
    let dir = PathBuf::from(PLUGIN_DIR);
    let Some(pid) = nri_host::launcher_of(&dir) else { return Some(dir) };
    tracing::warn!(
        directory = PLUGIN_DIR,
        "{} has NRI of its own, which launches the shared plugins: none is launched here; set plugin_path to launch some",
        describe(pid)
    );
    None
}

/// The socket for plugins beside our own. Whether somebody else listens there is not looked at.
pub fn plugin_socket(settings: &Settings) -> Option<PathBuf> {
    match &settings.config.socket_path {
        Some(path) => (!path.as_os_str().is_empty()).then(|| path.clone()),
        // An engine that starts later would remove it.
        None => (settings.is_default_state_dir() && !engine_installed()).then(|| PLUGIN_SOCKET.into()),
    }
}

/// Notices when the path of a socket that we listen on is not ours any more: containerd removes what it finds there when it starts.
pub async fn watch_socket(path: PathBuf) {
    let identity = |path: &Path| std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let ours = identity(&path);
    while identity(&path) == ours {
        tokio::time::sleep(LOOK_AT_SOCKET).await;
    }
    let now = match listener(&path) {
        Some(pid) => format!("{} listens there now", describe(pid)),
        None => "nobody listens there now".to_owned(),
    };
    tracing::error!(
        socket = %path.display(),
        "somebody took this path away: {now}; plugins that look for it do not reach this nrid any more. `nrictl doctor` says more"
    );
}

fn engine_installed() -> bool {
    let installed = |name: &&str| SEARCH_PATH.split(':').any(|dir| Path::new(dir).join(name).exists());
    ENGINES_WITH_NRI.iter().any(installed)
}
