//! What `nrid` is told: its command line and the configuration file, read at the start and whenever
//! a reload is asked for.

use nri_config::Config;
use nri_locate::{ConfigFileError, Environment, LoadedConfig, NridOwner};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Everything that is fixed until the next reload.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The file that it came from; none where there was none.
    pub file: Option<PathBuf>,
    /// Sockets, locks and records.
    pub state_dir: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: Option<String>,
    /// What the command line says: configuration file and state directory.
    told: (Option<PathBuf>, Option<PathBuf>),
}

impl Settings {
    /// Reads the configuration: `named` on the command line, else by the environment, else the
    /// usual file, which may be missing.
    ///
    /// # Errors
    /// A file that was named and is missing; any file that is unreadable or wrong.
    pub fn load(named: Option<&Path>, state: Option<&Path>) -> Result<Self, ConfigFileError> {
        let told = (named.map(Path::to_owned), state.map(Path::to_owned));
        let environment = Environment::of_this_process();
        let loaded = LoadedConfig::read(named, &environment);
        if let Some(problem) = loaded.problem {
            return Err(problem);
        }
        let state_dir =
            state.map_or_else(|| loaded.state_dir(&environment), std::path::Path::to_owned);
        let digest = loaded.source.as_ref().map(|(_, text)| format!("{:x}", Sha256::digest(text)));
        let file = loaded.source.map(|(file, _)| file);
        Ok(Self { config: loaded.config, file, state_dir, digest, told })
    }

    /// The file that the command line names.
    pub fn named(&self) -> Option<&Path> {
        self.told.0.as_deref()
    }

    /// Reads it again, as it was told at the start.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn load_again(&self) -> Result<Self, ConfigFileError> {
        Self::load(self.told.0.as_deref(), self.told.1.as_deref())
    }

    /// Whether this is the `nrid` of the host, and not one that was put elsewhere.
    pub fn is_default_state_dir(&self) -> bool {
        self.state_dir == NridOwner::Host.state_dir()
    }
}
