//! [`RuntimeConfig`]: names, paths and time limits.

use nri_adaptation::{AdaptationConfig, PluginPolicy};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// Configuration of [`Nri`](crate::Nri). [`RuntimeConfig::new`] has the paths and time limits of
/// upstream NRI; each field can be changed afterwards. Paths must be absolute.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// Name of the runtime, sent to plugins.
    pub runtime_name: String,
    /// Version of the runtime, sent to plugins.
    pub runtime_version: String,
    /// Directory of the plugins to launch, whose files are named `NN-name`. A missing directory, or
    /// an empty path, launches none.
    pub plugin_dir: PathBuf,
    /// Directory of the launched plugins' configurations, `NN-name.conf` or `name.conf`.
    pub plugin_config_dir: PathBuf,
    /// Socket that external plugins connect to; `None` accepts none. If its directory alone is
    /// missing, it is created for its owner; a socket without a listener is replaced.
    pub socket: Option<PathBuf>,
    /// Time limit from the connection of a plugin to its registration.
    pub registration_timeout: Duration,
    /// Time limit of each call to a plugin.
    pub request_timeout: Duration,
    /// Plugins, as `name` or `NN-name`, without which no container is created.
    /// [`Nri::start`](crate::Nri::start) fails if one of the plugin directory does not become
    /// active.
    pub required_plugins: Vec<String>,
}

impl RuntimeConfig {
    /// Creates a configuration for a runtime of this name and version.
    pub fn new(runtime_name: impl Into<String>, runtime_version: impl Into<String>) -> Self {
        let defaults = AdaptationConfig::default();
        Self {
            runtime_name: runtime_name.into(),
            runtime_version: runtime_version.into(),
            plugin_dir: defaults.plugin_path,
            plugin_config_dir: defaults.plugin_config_path,
            socket: Some("/var/run/nri/nri.sock".into()),
            registration_timeout: defaults.registration_timeout,
            request_timeout: defaults.request_timeout,
            required_plugins: Vec::new(),
        }
    }

    /// Checks that all paths are absolute.
    ///
    /// # Errors
    /// [`Error::RelativePath`] names the first one that is not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let dirs =
            [("plugin_dir", &self.plugin_dir), ("plugin_config_dir", &self.plugin_config_dir)];
        // An empty path is no directory.
        let dirs = dirs.into_iter().filter(|(_, dir)| !dir.as_os_str().is_empty());
        let socket = self.socket.iter().map(|path| ("socket", path));
        match dirs.chain(socket).find(|(_, path)| path.is_relative()) {
            Some((name, path)) => Err(Error::RelativePath { name, path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the configuration of the adaptation.
    pub(crate) fn to_adaptation(&self) -> AdaptationConfig {
        let required = |plugin: &String| PluginPolicy {
            plugin: plugin.clone(),
            required: true,
            ..PluginPolicy::default()
        };
        let defaults = AdaptationConfig::default();
        AdaptationConfig {
            plugin_path: self.plugin_dir.clone(),
            plugin_config_path: self.plugin_config_dir.clone(),
            disable_connections: self.socket.is_none(),
            registration_timeout: self.registration_timeout,
            request_timeout: self.request_timeout,
            reply_limit: defaults.reply_limit.max(self.request_timeout.saturating_mul(20)),
            runtime_name: self.runtime_name.clone(),
            runtime_version: self.runtime_version.clone(),
            policies: self.required_plugins.iter().map(required).collect(),
            ..defaults
        }
    }
}
