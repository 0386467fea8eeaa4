//! What NRI runtimes of one host share: the plugin directory and the socket that plugins look for.
//! Engines with NRI of their own come first.

use crate::{
    service::Service,
    settings::{load::Settings, plugins::adaptation_config},
};
use nri_adaptation::ReloadOutcome;
use nri_host::{describe, listener};
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET, standard_dirs};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, task::spawn_blocking};

/// How often the path of the shared socket is looked at.
const LOOK_AT_SOCKET: Duration = Duration::from_secs(10);

/// How long it is taken for granted that an engine still launches the shared plugins.
const LOOK_AT_ENGINES: Duration = Duration::from_secs(2);

/// Engines that have NRI of their own in their recent versions, and listen on the shared socket
/// then.
const ENGINES_WITH_NRI: [&str; 2] = ["containerd", "crio"];

/// The directory of the plugins to launch; none while another NRI runtime is live that launches
/// those of the shared one. `ours`: the shared socket is, and so are the shared plugins.
pub fn plugin_dir(settings: &Settings, ours: bool) -> Option<PathBuf> {
    if let Some(dir) = &settings.config.plugin_path {
        return Some(dir.clone());
    }
    let dir = PathBuf::from(PLUGIN_DIR);
    if ours {
        return Some(dir);
    }
    let Some(pid) = nri_host::launcher_of(&dir) else { return Some(dir) };
    tracing::warn!(
        directory = PLUGIN_DIR,
        "{} has NRI of its own, which launches the shared plugins: none is launched here; set plugin_path to launch some",
        describe(pid)
    );
    None
}

/// The shared plugins while they are left to an engine whose own NRI launches them.
#[derive(Debug)]
pub struct SharedPlugins {
    /// When it was last looked whether that is still so; none: they are not, or not any more.
    left: Mutex<Option<Instant>>,
}

impl SharedPlugins {
    /// `left`: they are left to an engine now.
    pub fn new(left: bool) -> Self {
        Self { left: Mutex::new(left.then(Instant::now)) }
    }

    /// The same, after a start.
    pub async fn set(&self, left: bool) {
        *self.left.lock().await = left.then(Instant::now);
    }
}

impl Service {
    /// The directory of the plugins that are launched here; none while the shared ones are left to
    /// an engine.
    pub fn launches(&self) -> Option<PathBuf> {
        // While they are being taken over, they are not launched yet.
        let left = self.shared_plugins.left.try_lock().map_or(true, |left| left.is_some());
        let dir = self.settings().config.plugin_path.clone();
        if left { None } else { Some(dir.unwrap_or_else(|| PLUGIN_DIR.into())) }
    }

    /// Launches the shared plugins once the engine that they were left to has its NRI switched off:
    /// before a container is created that nobody else would adapt.
    pub async fn take_shared_plugins(&self) {
        let mut left = self.shared_plugins.left.lock().await;
        let Some(looked) = *left else { return };
        if looked.elapsed() < LOOK_AT_ENGINES {
            return;
        }
        let owner = spawn_blocking(|| nri_host::launcher_of(Path::new(PLUGIN_DIR))).await;
        if !matches!(owner, Ok(None)) {
            *left = Some(Instant::now());
            return;
        }
        tracing::info!(
            directory = PLUGIN_DIR,
            "the shared plugins are nobody else's any more: launched here"
        );
        let config = adaptation_config(&self.settings().config, Some(PLUGIN_DIR.into()));
        for change in self.adaptation.reload(config).await {
            if let ReloadOutcome::Failed(error) | ReloadOutcome::Unusable(error) = change.outcome {
                tracing::error!(plugin = %change.path.display(), error, "not launched");
            }
        }
        *left = None;
    }
}

/// The socket for plugins beside our own. Whether somebody else listens there is not looked at.
pub fn plugin_socket(settings: &Settings) -> Option<PathBuf> {
    match &settings.config.socket_path {
        Some(path) => (!path.as_os_str().is_empty()).then(|| path.clone()),
        // An engine that starts later would remove it.
        None => {
            (settings.is_default_state_dir() && !engine_installed()).then(|| PLUGIN_SOCKET.into())
        }
    }
}

/// Notices when the path of a socket that we listen on is not ours any more: containerd removes
/// what it finds there when it starts.
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
    let installed = |name: &&str| standard_dirs().any(|dir| dir.join(name).exists());
    ENGINES_WITH_NRI.iter().any(installed)
}
