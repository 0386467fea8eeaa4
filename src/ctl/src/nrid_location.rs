//! Location of `nrid`: program, state directory and socket, found in the command line, the
//! environment and the configuration in the same way as `nrid` finds them.

use nri_config::{Config, ConfigError};
use nri_control::{Launcher, Status, answers};
use nri_files::{AUDIT_LOG, OsText};
use nri_host::sha256;
use nri_locate::{
    CONFIG_FILE, ConfigFileError, Environment, LoadedConfig, MAX_CONFIG_FILE, NRID, NridOwner,
    PluginDirs, UserDirs, find_own_program, read_regular_text,
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Location of `nrid`, and its configuration.
#[derive(Debug)]
pub(crate) struct NridLocation {
    /// Program, state directory and socket.
    pub(crate) launcher: Launcher,
    /// State directory of root's `nrid`, if this process belongs to another user, who has neither
    /// configuration nor installation, and nothing names the directory.
    pub(crate) state_dir_of_root: Option<PathBuf>,
    pub(crate) config: Config,
    /// Directories of the plugins that nrid launches.
    pub(crate) plugin_dirs: PluginDirs,
    /// Configuration file that was read; `None` if none exists.
    pub(crate) file: Option<PathBuf>,
    /// SHA-256 of the file, in hexadecimal.
    pub(crate) digest: Option<String>,
    /// Values that are wrong, but have been corrected.
    pub(crate) mistakes: Vec<ConfigError>,
    /// Reason why the file cannot be used. The other fields then hold defaults, except for the
    /// state directory and the runtime, if they could be read.
    pub(crate) problem: Option<ConfigFileError>,
}

impl NridLocation {
    /// Finds `nrid` and reads its configuration. A file that cannot be used is not an error of this
    /// function: `problem` has the reason.
    pub(crate) fn find(config_file: Option<&Path>, state_dir: Option<&Path>) -> Self {
        let environment = Environment::of_this_process();
        let mut loaded = LoadedConfig::read(config_file, &environment, answers);
        // An untrusted file may still name the state directory: the client checks the owner of the
        // process that it connects to.
        if let Some(ConfigFileError::Untrusted(path, _)) = &loaded.problem
            && let Ok(text) = read_regular_text(path, MAX_CONFIG_FILE)
        {
            loaded.config.state_dir = Config::of_broken(&text).state_dir;
        }
        let is_default = state_dir.is_none() && loaded.config.state_dir.is_none();
        let is_root = NridOwner::of_this_process(&environment) == NridOwner::Host;
        // A user with a configuration or an installation means the own nrid.
        let has_own = UserDirs::of_this_process(&environment)
            .is_some_and(|user| user.own_config_dir().exists());
        let state_dir_of_root =
            (is_default && !is_root && !has_own).then(|| NridOwner::Host.state_dir());
        let launcher = Launcher {
            program: find_own_program(NRID, &environment),
            state_dir: state_dir.map_or_else(|| loaded.state_dir(&environment), Path::to_owned),
            config: loaded.named.take(),
            timeout: loaded.config.start_timeout,
        };
        let digest = loaded.source.as_ref().map(|(_, text)| sha256(text));
        let file = loaded.source.take().map(|(file, _)| file);
        let LoadedConfig { config, mistakes, problem, .. } = loaded;
        let plugin_dirs = PluginDirs::of(&config, &environment);
        Self { launcher, state_dir_of_root, config, plugin_dirs, file, digest, mistakes, problem }
    }

    /// Returns the path of the audit log.
    pub(crate) fn audit_log(&self) -> PathBuf {
        let file = self.config.audit.file.clone();
        file.unwrap_or_else(|| self.launcher.state_dir.join(AUDIT_LOG))
    }

    /// Path of the configuration file that calls of the wrapper name.
    pub(crate) fn named_file(&self) -> PathBuf {
        self.launcher.config.clone().unwrap_or_else(|| CONFIG_FILE.into())
    }

    /// Whether the `nrid` of this status has read another configuration than the files have now.
    pub(crate) fn is_outdated(&self, status: &Status) -> bool {
        let read = status.config.as_ref().map(OsText::as_path);
        // An older nrid does not report a digest.
        let is_known = self.problem.is_none() && (read.is_none() || status.config_digest.is_some());
        is_known && (read != self.file.as_deref() || status.config_digest != self.digest)
    }

    /// Returns `self` if the configuration can be used.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(crate) fn checked(self) -> Result<Self, ConfigFileError> {
        match self.problem {
            None => Ok(self),
            Some(problem) => Err(problem),
        }
    }

    /// Prints the problem of the configuration, if any, as a warning, for commands that do not need
    /// a valid configuration. Returns `self`.
    pub(crate) fn print_warning(self) -> Self {
        if let Some(problem) = &self.problem {
            let socket = self.launcher.socket();
            let text = format!("nrictl: warning: {problem}; using {}\n", socket.display());
            // A failed write to standard error cannot be reported anywhere.
            let _ = io::stderr().write_all(text.as_bytes());
        }
        self
    }
}
